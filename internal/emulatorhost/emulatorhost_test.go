package emulatorhost

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

func TestAwait(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes longer than a second")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	for _, set := range []string{"", address, "http://" + address} {
		t.Setenv(Bigtable, set)
		if err := Await(t.Context(), Bigtable); err != nil {
			t.Errorf("%q: %v", set, err)
		}
	}
	_ = l.Close()
	begun := time.Now()
	err = Await(t.Context(), Bigtable)
	if op, ok := errors.AsType[*net.OpError](err); !ok || op.Addr.String() != address || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody listens: %v", err)
	}
	if waited := time.Since(begun); waited < patience {
		t.Errorf("an emulator that starts had %v, not %v", waited, patience)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Await(ended, Bigtable); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}
