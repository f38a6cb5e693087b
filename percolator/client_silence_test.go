package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
)

// traffic makes transactions at a rate, and keeps how long each took.
type traffic struct {
	t      *testing.T
	client *percolator.Client
	every  time.Duration

	mu      sync.Mutex
	took    []time.Duration // of those that began since the last call of since
	failed  []error
	waiting sync.WaitGroup
	stop    context.CancelFunc
	n       int
}

// startTraffic begins; every transaction reads a cell and writes two rows.
func startTraffic(t *testing.T, client *percolator.Client, every time.Duration) *traffic {
	ctx, stop := context.WithCancel(fixture.Context(t))
	l := &traffic{t: t, client: client, every: every, stop: stop}
	l.waiting.Go(func() {
		for tick := time.NewTicker(every); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				l.n++
				i := l.n
				l.waiting.Go(func() { l.one(i) })
			}
		}
	})
	return l
}

func (l *traffic) one(i int) {
	started := time.Now()
	_, err := l.client.Update(fixture.Context(l.t), func(ctx context.Context, tx *percolator.Txn) error {
		if _, err := tx.Get(ctx, fixture.Cell(fmt.Sprint("a", i), "c")); err != nil && !errors.Is(err, percolator.ErrNotFound) {
			return err
		}
		if err := tx.Set(fixture.Cell(fmt.Sprint("a", i), "c"), []byte("v")); err != nil {
			return err
		}
		return tx.Set(fixture.Cell(fmt.Sprint("b", i), "c"), []byte("v"))
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, time.Since(started))
	if err != nil {
		l.failed = append(l.failed, err)
	}
}

// figures are of the transactions that have ended since the last call.
func (l *traffic) figures() (n int, p99, longest time.Duration, failed []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := slices.Sorted(slices.Values(l.took))
	failed, l.took, l.failed = l.failed, nil, nil
	if n = len(took); n == 0 {
		return 0, 0, 0, failed
	}
	return n, took[n*99/100], took[n-1], failed
}

// end waits for what is in flight.
func (l *traffic) end() {
	l.stop()
	l.waiting.Wait()
}

// pooled is a client with ten connections to an emulator, of which the first may be silent from the
// start.
func pooled(t *testing.T, cfg percolator.BigtableConfig, silent int) (*percolator.Client, *emulator.Server) {
	t.Helper()
	if testing.Short() {
		t.Skip("real connections, in real time")
	}
	em, err := emulator.Start()
	fixture.Must(t, err)
	t.Cleanup(func() { _ = em.Close() })
	oracle := fixture.NewEnv(t).Oracle
	fixture.Must(t, percolator.CreateSchema(fixture.Context(t), "p", "i", fixture.Schema(), em.ClientOptions()...))
	em.SilenceNext(silent)
	cfg.Connections = 10
	client, err := percolator.NewClient(fixture.Context(t), percolator.Config{Project: "p", Instance: "i", Oracle: oracle, Bigtable: cfg}, em.ClientOptions()...)
	fixture.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client, em
}

// oneOfTen is how long a transaction may take while one connection of ten is silent.
const oneOfTen = 15 * time.Second

// beforeQuestion is how long a request waits for a connection before the client pings it. A quicker
// transaction has waited for none that is silent.
const beforeQuestion = 2 * time.Second

// One of ten connections swallows everything, and has no keepalive: no transaction fails, none
// takes long, and after seconds none waits for it.
func TestSilentConnection(t *testing.T) {
	t.Parallel()
	client, em := pooled(t, percolator.BigtableConfig{KeepaliveTime: -1}, 0)
	l := startTraffic(t, client, 20*time.Millisecond)
	defer l.end()
	time.Sleep(time.Second)
	l.figures()
	pool := em.Connections()
	pool[len(pool)/2].Silence()
	time.Sleep(8 * time.Second)
	n, p99, longest, failed := l.figures()
	if longest > oneOfTen || len(failed) > 0 {
		t.Errorf("beside a silent connection %d transactions took up to %v, p99 %v; %d failed: %v", n, longest, p99, len(failed), errors.Join(failed...))
	}
	t.Logf("while it was found: %d transactions, the longest %v, p99 %v", n, longest, p99)
	for stretch := 1; ; stretch++ {
		time.Sleep(3 * time.Second)
		n, p99, longest, failed = l.figures()
		t.Logf("after that: %d transactions, the longest %v, p99 %v", n, longest, p99)
		if longest > oneOfTen || len(failed) > 0 {
			t.Fatalf("once it was found %d transactions took up to %v; %d failed: %v", n, longest, len(failed), errors.Join(failed...))
		}
		if p99 < beforeQuestion {
			return
		}
		if stretch == 5 {
			t.Fatalf("a silent connection that was found is waited for: p99 %v", p99)
		}
	}
}

// A client starts although one of ten connections is silent from the start, and says so in time if
// all are.
func TestStartWithASilentConnection(t *testing.T) {
	t.Parallel()
	started := time.Now()
	client, _ := pooled(t, percolator.BigtableConfig{}, 1)
	if took := time.Since(started); took > oneOfTen {
		t.Errorf("the client took %v to start", took)
	}
	l := startTraffic(t, client, 20*time.Millisecond)
	time.Sleep(time.Second)
	l.end()
	if n, _, longest, failed := l.figures(); n == 0 || longest > oneOfTen || len(failed) > 0 {
		t.Errorf("%d transactions took up to %v; %d failed: %v", n, longest, len(failed), errors.Join(failed...))
	}
}

func TestStartWithSilentConnections(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("real connections, in real time")
	}
	env := fixture.NewEnv(t)
	em, err := emulator.Start()
	fixture.Must(t, err)
	t.Cleanup(func() { _ = em.Close() })
	em.SilenceNext(1000)
	started := time.Now()
	_, err = percolator.NewClient(fixture.Context(t), percolator.Config{Project: "p", Instance: "i", Oracle: env.Oracle}, em.ClientOptions()...)
	if took := time.Since(started); err == nil || took > 45*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	t.Logf("%v: %v", time.Since(started), err)
}

// All connections are reset at once, several times: no transaction fails.
func TestConnectionsReset(t *testing.T) {
	t.Parallel()
	client, em := pooled(t, percolator.BigtableConfig{}, 0)
	l := startTraffic(t, client, 5*time.Millisecond)
	defer l.end()
	for range 5 {
		time.Sleep(300 * time.Millisecond)
		for _, c := range em.Connections() {
			c.Reset()
		}
	}
	time.Sleep(300 * time.Millisecond)
	l.end()
	if n, p99, longest, failed := l.figures(); n == 0 || longest > oneOfTen || len(failed) > 0 {
		t.Errorf("%d transactions took up to %v, p99 %v; %d failed: %v", n, longest, p99, len(failed), errors.Join(failed...))
	}
}
