// Package emulatorhost looks whether an emulator listens where an environment variable says.
// Google's clients try to connect for as long as a context lasts, and then say only that it has
// ended.
package emulatorhost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// The environment variables by which Google's clients find emulators.
const (
	Bigtable = "BIGTABLE_EMULATOR_HOST"
	Spanner  = "SPANNER_EMULATOR_HOST"
)

// services are what their emulators serve.
var services = map[string]string{Bigtable: "google.bigtable.v2.Bigtable", Spanner: "google.spanner.v1.Spanner"}

var (
	// ErrNone means that no emulator answers where the variable says.
	ErrNone = errors.New("no emulator")
	// ErrAddress means that the variable holds no address: waiting does not help.
	ErrAddress = errors.New("no address HOST:PORT")
)

// An emulator may have been started just now.
const (
	patience = 2 * time.Second
	pause    = 100 * time.Millisecond
)

// Await returns nil once an emulator answers at the address in variable, and at once if the
// variable is not set. After two seconds without an answer it returns ErrNone, with the address and
// what came instead.
func Await(ctx context.Context, variable string) error {
	return await(ctx, variable, os.Getenv(variable), new(net.Dialer).DialContext)
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func await(ctx context.Context, variable, value string, dial dialer) error {
	if value == "" {
		return nil
	}
	address := value
	if _, rest, ok := strings.Cut(value, "://"); ok { // which Google's clients ignore
		address = rest
	}
	_, port, err := net.SplitHostPort(address)
	if n, malformed := strconv.ParseUint(port, 10, 16); err != nil || malformed != nil || n == 0 {
		return fmt.Errorf("%s=%s: %w", variable, value, ErrAddress)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v: %w", patience, context.DeadlineExceeded))
	defer cancel()
	for said := error(nil); ; {
		answered, err := ask(ctx, dial, address, services[variable])
		if err == nil {
			return nil
		}
		if said == nil || ctx.Err() == nil { // an attempt that was cut short says less than the one before
			said = err
		}
		if !answered { // a server of something else will not become an emulator
			select {
			case <-time.After(pause):
				continue
			case <-ctx.Done():
			}
		}
		return fmt.Errorf("%w at %s=%s: %w (start it, or correct or unset %[2]s)", ErrNone, variable, value, said)
	}
}

// ask calls a method that service does not have, which costs a server nothing. It is a request in
// HTTP/2 without the rest of a gRPC client, whose errors lack what was wrong with the connection.
func ask(ctx context.Context, dial dialer, address, service string) (answered bool, err error) {
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: h2c, DialContext: dial}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/"+service+"/Await", strings.NewReader("\x00\x00\x00\x00\x00"))
	if err != nil {
		return true, err
	}
	request.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	response, err := transport.RoundTrip(request)
	if err != nil {
		op, ok := errors.AsType[*net.OpError](err)
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case !ok || op.Op != "dial": // it listens; how the transport fails depends on when it notices
			err = fmt.Errorf("a server that does not speak gRPC: %w", err)
		}
		return false, err
	}
	_ = response.Body.Close()
	switch message := response.Header.Get("Grpc-Message"); {
	case !strings.HasPrefix(response.Header.Get("Content-Type"), "application/grpc"):
		return true, errors.New("a server that does not speak gRPC")
	case strings.HasPrefix(message, "unknown service"):
		return true, errors.New("a server of other services than " + service)
	}
	return true, nil
}
