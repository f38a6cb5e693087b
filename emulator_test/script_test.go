package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

const (
	table  = "test"
	column = "value"
)

var schema = &percolator.Schema{Tables: []percolator.Table{{Name: table}}}

func cell(row string) percolator.Cell {
	return percolator.Cell{Table: table, Row: row, Column: column}
}

// script is one case: a store of its own with x = 10 and y = 20, and transactions of different
// clients taking turns.
type script struct {
	*testing.T
	ctx context.Context
	env *percolatortest.Env
}

func newScript(t *testing.T) *script {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	s := &script{T: t, ctx: ctx, env: percolatortest.New(t, schema, percolatortest.Address(storeAddr))}
	setup := s.begin("setup")
	setup.set("x", "10")
	setup.set("y", "20")
	setup.commits()
	setup.flushes()
	return s
}

// session is a transaction and the client whose it is.
type session struct {
	*script
	name   string
	client *percolator.Client
	faults *percolatortest.Faults
	tx     *percolator.Txn
}

// begin starts a transaction of a new client.
func (s *script) begin(name string) *session {
	s.Helper()
	c := s.env.NewClient(percolatortest.Name(name))
	tx, err := c.Begin(s.ctx)
	if err != nil {
		s.Fatalf("%s: begin: %v", name, err)
	}
	return &session{script: s, name: name, client: c, faults: s.env.FaultsOf(c), tx: tx}
}

// get reads a row; "" is absence.
func (x *session) get(row string) (string, error) {
	v, err := x.tx.Get(x.ctx, cell(row))
	if errors.Is(err, percolator.ErrNotFound) {
		return "", nil
	}
	return string(v), err
}

func (x *session) reads(row, want string) {
	x.Helper()
	if got, err := x.get(row); err != nil || got != want {
		x.Errorf("%s reads %s = %q, %v, want %q", x.name, row, got, err, want)
	}
}

// readsForUpdate is reads with the promise that the transaction conflicts with whoever writes the
// row.
func (x *session) readsForUpdate(row, want string) {
	x.Helper()
	if got, err := x.tx.GetForUpdate(x.ctx, cell(row)); err != nil || string(got) != want {
		x.Errorf("%s reads %s = %q for update, %v, want %q", x.name, row, got, err, want)
	}
}

// finds scans for rows with one of the values.
func (x *session) finds(values []string, want ...string) {
	x.Helper()
	var got []string
	for e, err := range x.tx.Scan(x.ctx, table, percolator.All(), column) {
		if err != nil {
			x.Errorf("%s scans: %v", x.name, err)
			return
		}
		if slices.Contains(values, string(e.Value)) {
			got = append(got, e.Cell.Row)
		}
	}
	if !slices.Equal(got, want) {
		x.Errorf("%s finds %q in rows %q, want %q", x.name, values, got, want)
	}
}

func (x *session) set(row, value string) {
	x.Helper()
	if err := x.tx.Set(cell(row), []byte(value)); err != nil {
		x.Errorf("%s sets %s: %v", x.name, row, err)
	}
}

func (x *session) deletes(row string) {
	x.Helper()
	if err := x.tx.Delete(cell(row)); err != nil {
		x.Errorf("%s deletes %s: %v", x.name, row, err)
	}
}

func (x *session) commits() {
	x.Helper()
	if _, err := x.tx.Commit(x.ctx); err != nil {
		x.Errorf("%s commits: %v", x.name, err)
	}
}

func (x *session) conflicts() {
	x.Helper()
	if ts, err := x.tx.Commit(x.ctx); !errors.Is(err, percolator.ErrConflict) {
		x.Errorf("%s commits: %d, %v, want ErrConflict", x.name, ts, err)
	}
}

func (x *session) rollsBack() {
	x.Helper()
	if err := x.tx.Rollback(x.ctx); err != nil {
		x.Errorf("%s rolls back: %v", x.name, err)
	}
}

// flushes waits for the secondaries of what the client has committed.
func (x *session) flushes() {
	x.Helper()
	if err := x.client.Flush(x.ctx); err != nil {
		x.Errorf("%s: %v", x.name, err)
	}
}

// started is something that goes on beside the script.
type started[T any] struct {
	s    *script
	done chan T
}

func start[T any](s *script, f func() T) *started[T] {
	g := &started[T]{s, make(chan T, 1)}
	go func() { g.done <- f() }()
	return g
}

func (g *started[T]) result() (v T) {
	g.s.Helper()
	select {
	case v = <-g.done:
	case <-g.s.ctx.Done():
		g.s.Fatal("what was started did not end")
	}
	return v
}

func (g *started[T]) stillGoesOn() {
	g.s.Helper()
	select {
	case v := <-g.done:
		g.s.Errorf("it ended with %v", v)
	default:
	}
}

// startCommit commits beside the script; the result is nil or what went wrong.
func (x *session) startCommit() *started[error] {
	return start(x.script, func() error {
		_, err := x.tx.Commit(x.ctx)
		return err
	})
}

// startGet reads a row beside the script; the result is "row = value" or the error.
func (x *session) startGet(row string) *started[string] {
	return start(x.script, func() string {
		v, err := x.get(row)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s = %s", row, v)
	})
}

// holds keeps back the client's requests to the row that write or erase cells of the family.
func (x *session) holds(row, sets, erases string) *percolatortest.Hold {
	h := percolatortest.NewHold()
	x.faults.Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == table && r.Row == row && (sets != "" && r.Sets(sets) || erases != "" && r.Erases(erases)) {
			return h
		}
		return percolatortest.Pass
	})
	return h
}

// holdsCommitPoint stops the transaction, whose primary row is named, after all prewrites and with
// its commit timestamp.
func (x *session) holdsCommitPoint(primary string) *percolatortest.Hold {
	return x.holds(primary, "write", "")
}

// finally checks what a new transaction reads.
func (s *script) finally(want ...string) {
	s.Helper()
	last := s.begin("finally")
	for _, w := range want {
		row, value, _ := strings.Cut(w, "=")
		last.reads(row, value)
	}
}
