package main

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/tso"
)

// Where no emulator answers, a command says so, with the address, and not that a schema may be
// missing.
func TestWrongEmulatorHost(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	server, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	fixture.Must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fixture.Must(t, err)
	oracle := l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() { stop(); fixture.Must(t, <-ended) })
	for _, args := range [][]string{
		{"get", "documents", "a"}, {"schema", "show"}, {"schema", "apply", webSchema, "--yes"}, {"init"}, {"tso", "serve", "--listen", "127.0.0.1:0"}, {"check"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			silent, waited := silentPort(t)
			defer waited()
			for _, c := range []struct {
				address, says string
				code          int
			}{
				{"127.0.0.1:1", "dial tcp 127.0.0.1:1: ", cli.ExitUnavailable},
				{"127.0.0.1", "BIGTABLE_EMULATOR_HOST=127.0.0.1: no address HOST:PORT", cli.ExitUsage},
				{silent, "no emulator at BIGTABLE_EMULATOR_HOST=" + silent, cli.ExitUnavailable},
			} {
				p := start(t, append(onBigtable(c.address), cli.OracleEnv+"="+oracle, "PERCOLATOR_PROJECT=p", "PERCOLATOR_INSTANCE=i"), args...)
				code := p.wait(t)
				said := p.stderr.String() + p.stdout.String()
				if code != c.code || !strings.Contains(said, c.says) || strings.Contains(said, "schema") {
					t.Errorf("exit status %d\n%s", code, said)
				}
			}
			if took := waited(); took == 0 || took > 3*time.Second {
				t.Errorf("it waited %v for an answer", took)
			}
		})
	}
}

// silentPort accepts connections and never answers. waited says how long a process, which has
// ended, waited there; how long it took to start makes no difference.
func silentPort(t *testing.T) (address string, waited func() time.Duration) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fixture.Must(t, err)
	var started, ended time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if started.IsZero() {
				started = time.Now()
			}
			_, _ = io.Copy(io.Discard, c)
			_, ended = c.Close(), time.Now()
		}
	}()
	return l.Addr().String(), func() time.Duration {
		_ = l.Close()
		<-done
		return ended.Sub(started)
	}
}
