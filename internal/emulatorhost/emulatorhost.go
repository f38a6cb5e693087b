// Package emulatorhost looks whether an emulator listens where an environment variable says.
// Google's clients try to connect for as long as a context lasts, and then say only that it has
// ended.
package emulatorhost

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// The environment variables by which Google's clients find emulators.
const (
	Bigtable = "BIGTABLE_EMULATOR_HOST"
	Spanner  = "SPANNER_EMULATOR_HOST"
)

// An emulator may have been started just now.
const (
	patience = 2 * time.Second
	pause    = 100 * time.Millisecond
)

// Await returns nil once something listens at the address in variable, and at once if the variable
// is not set. After two seconds it returns the error of connecting, which names the address.
func Await(ctx context.Context, variable string) error {
	address := os.Getenv(variable)
	if address == "" {
		return nil
	}
	if _, rest, ok := strings.Cut(address, "://"); ok { // which Google's clients ignore
		address = rest
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for said := error(nil); ; {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		if said == nil || ctx.Err() == nil { // an attempt that was cut short says less than the one before
			said = err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("no emulator at %s: %w", variable, said)
		}
	}
}
