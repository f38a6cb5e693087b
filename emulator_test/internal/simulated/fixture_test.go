package simulated_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
)

// lifetime is that of the requests of these tests.
const lifetime = 30 * time.Second

// process is a connection whose requests have their lifetime, on table t.
type process struct {
	*simulated.Connection
	ctx context.Context
}

// simulate runs a test on a cluster in virtual time, and waits until nothing is under way.
func simulate(t *testing.T, cfg simulated.Config, f func(t *testing.T, c *simulated.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, newCluster(t, cfg))
		time.Sleep(2 * lifetime)
	})
}

func connect(t *testing.T, c *simulated.Cluster, name string) process {
	return process{c.Connect(name), t.Context()}
}

func put(value string) *store.Mutation {
	m := store.NewMutation(1)
	m.Put(layout.DataFamily, "c", 5, []byte(value))
	return m
}

// create writes a row that does not exist.
func (p process) create(row string) error {
	ctx, cancel := context.WithTimeout(p.ctx, lifetime)
	defer cancel()
	_, err := p.CheckAndMutate(ctx, "t", row, store.Anything(), nil, put("v"))
	return err
}

// toggle writes a row that does not exist, and removes one that does.
func (p process) toggle(row string) error {
	ctx, cancel := context.WithTimeout(p.ctx, lifetime)
	defer cancel()
	gone := store.NewMutation(1)
	gone.EraseRow()
	_, err := p.CheckAndMutate(ctx, "t", row, store.Anything(), gone, put("v"))
	return err
}

// write writes rows.
func (p process) write(rows ...string) ([]error, error) {
	ctx, cancel := context.WithTimeout(p.ctx, lifetime)
	defer cancel()
	muts := make([]*store.Mutation, len(rows))
	for i := range muts {
		muts[i] = put("v")
	}
	return p.MutateRows(ctx, "t", rows, muts)
}

// read lists the rows of the table.
func (p process) read() (rows []string, err error) { return p.readRows(store.Rows{}) }

// readDown lists the rows of the table, which it reads from the last to the first, in order.
func (p process) readDown() (rows []string, err error) {
	rows, err = p.readRows(store.Rows{Reverse: true})
	slices.Reverse(rows)
	return rows, err
}

func (p process) readRows(of store.Rows) (rows []string, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, lifetime)
	defer cancel()
	err = p.ReadRows(ctx, "t", of, store.Anything(), 0, nil, func(r layout.Row) bool {
		rows = append(rows, r.Key)
		return true
	})
	return rows, err
}

// exists looks at a row as it is at present.
func exists(t *testing.T, c *simulated.Cluster, row string) (found bool) {
	t.Helper()
	if err := c.Visit("t", func(r layout.Row) bool {
		found = found || r.Key == row
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func numbered(n int) (rows []string) {
	for i := range n {
		rows = append(rows, fmt.Sprintf("r%03d", i))
	}
	return rows
}

// only checks that of the faults one kind has happened, and no other.
func only(t *testing.T, c *simulated.Cluster, kind simulated.Fault) {
	t.Helper()
	for f, n := range c.Faults() {
		if (n > 0) != (simulated.Fault(f) == kind) {
			t.Errorf("%v happened %d times", simulated.Fault(f), n)
		}
	}
}

// code spells an error without its message.
func code(err error) string { return status.Code(err).String() }

// leave sends a mutation, and leaves before an answer can come.
func (p process) leave(row string) error {
	ctx, cancel := context.WithTimeout(p.ctx, lifetime)
	defer cancel()
	defer time.AfterFunc(time.Microsecond, cancel).Stop()
	_, err := p.CheckAndMutate(ctx, "t", row, store.Anything(), nil, put("v"))
	return err
}
