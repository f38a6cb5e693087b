package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/schemafile"
	"github.com/gopercolator/percolator/tso"
)

// TestQuickstart runs the program as the page does: notes are written while it works, and are
// tagged; one that changes is tagged anew; and a transfer that dies after its commit point is
// finished by whoever reads next.
func TestQuickstart(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: waits for a worker")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client := newCluster(ctx, t)
	write := func(note, s string) {
		t.Helper()
		if _, err := client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return text.Set(tx, note, s) }); err != nil {
			t.Fatal(err)
		}
	}
	write("shopping", "milk and bread #home #soon")
	working, stop := context.WithCancel(ctx)
	var out synced
	ended := make(chan error, 1)
	go func() { ended <- work(working, &out) }()
	waitFor(ctx, t, client, "home/shopping", "soon/shopping")
	write("work", "call Ada #soon #soon #")
	waitFor(ctx, t, client, "home/shopping", "soon/shopping", "soon/work")
	write("shopping", "bread only #home")
	waitFor(ctx, t, client, "home/shopping", "soon/work")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "note \"work\": [soon]\n") {
		t.Errorf("it printed %q", out.String())
	}
}

// TestTransfer: money moves once, and both accounts change together.
func TestTransfer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client := newCluster(ctx, t)
	_, err := client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		return errors.Join(balance.Set(tx, "Bob", "$10"), balance.Set(tx, "Joe", "$2"))
	})
	var out synced
	if err := errors.Join(err, transfer(ctx, &out), transfer(ctx, &out)); err != nil || out.String() != "moved: true\nmoved: false\n" {
		t.Fatalf("%v, printed %q", err, out.String())
	}
	wantBalances(ctx, t, client)
}

// wantBalances wants what the accounts hold after a transfer.
func wantBalances(ctx context.Context, t *testing.T, client *percolator.Client) {
	t.Helper()
	err := client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		bob, err1 := balance.Get(ctx, s, "Bob")
		joe, err2 := balance.Get(ctx, s, "Joe")
		if bob != "$3" || joe != "$9" {
			t.Errorf("Bob has %q, Joe %q", bob, joe)
		}
		return errors.Join(err1, err2)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCrash(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client := newCluster(ctx, t)
	died := make(chan struct{})
	hold := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = transferAndDie(ctx, func() {
			close(died)
			<-hold // as good as dead
		})
	}()
	select {
	case <-died:
	case <-ctx.Done():
		t.Fatal("it did not die")
	}
	locks := func() int {
		n := 0
		for p, err := range admin.New(client).ScanPending(ctx, "accounts", percolator.All()) {
			if err != nil {
				t.Fatal(err)
			}
			n += len(p.Locks)
		}
		return n
	}
	if n := locks(); n != 1 {
		t.Fatalf("%d locks are left, want that of Joe's row", n)
	}
	wantBalances(ctx, t, client)
	if n := locks(); n != 0 {
		t.Errorf("%d locks are left after a read", n)
	}
	close(hold)
	<-ended
}

// newCluster starts an emulator and an oracle, with the schema of schema.yaml, and sets the
// environment for the program.
func newCluster(ctx context.Context, t *testing.T) *percolator.Client {
	t.Helper()
	store, err := emulator.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- oracle.Serve(serving, l) }()
	t.Cleanup(func() { stop(); <-ended })
	for name, value := range map[string]string{
		"BIGTABLE_EMULATOR_HOST": store.Addr(), "PERCOLATOR_TSO_ADDR": l.Addr().String(), "PERCOLATOR_PROJECT": "p", "PERCOLATOR_INSTANCE": "i",
	} {
		t.Setenv(name, value)
	}
	file, err := os.ReadFile("schema.yaml")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := schemafile.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := percolator.CreateSchema(ctx, "p", "i", schema, store.ClientOptions()...); err != nil {
		t.Fatal(err)
	}
	client, err := percolator.NewClient(ctx, percolator.Config{Project: "p", Instance: "i"}, store.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// waitFor waits until the table of tags holds exactly these, as tag/note.
func waitFor(ctx context.Context, t *testing.T, client *percolator.Client, want ...string) {
	t.Helper()
	for {
		var found []string
		err := client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
			for e, err := range s.Scan(ctx, "tags", percolator.All()) {
				if err != nil {
					return err
				}
				found = append(found, e.Cell.Row+"/"+e.Cell.Column)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("found %v, want %v: %v", found, want, err)
		}
		if slices.Equal(found, want) {
			return
		}
		select { // looks again soon; the wait is bounded by ctx
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// synced is a buffer for two goroutines.
type synced struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *synced) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *synced) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}
