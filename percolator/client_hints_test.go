package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/dispatch"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// hintService is a service of hints that a test controls, beside an oracle.
type hintService struct {
	tso.Oracle
	mu    sync.Mutex
	calls int
	left  []coordination.Hint
	want  bool // it takes them
	down  bool
}

func (s *hintService) LeaveHints(_ context.Context, hints []coordination.Hint) (refused []uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.down {
		return nil, errors.New("no answer")
	}
	if !s.want {
		return []uint64{hints[0].Topic}, nil
	}
	s.left = append(s.left, hints...)
	return nil, nil
}

func (s *hintService) TakeHints(_ context.Context, topics []uint64, most int, _ time.Duration) ([]coordination.Hint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errors.New("no answer")
	}
	n := min(most, len(s.left))
	taken := s.left[:n]
	s.left = s.left[n:]
	return slices.Clone(taken), nil
}

func (s *hintService) count() (calls, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, len(s.left)
}

func (s *hintService) client(env *percolatortest.Env, disabled bool) *percolator.Client {
	return env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) {
		s.Oracle, cfg.Oracle, cfg.DisableHints = cfg.Oracle, s, disabled
	}))
}

// setObserved writes the observed column of a row.
func setObserved(t *testing.T, c *percolator.Client, row string) tso.Timestamp {
	t.Helper()
	ts, err := c.Update(fixture.Context(t), func(_ context.Context, tx *percolator.Txn) error {
		return tx.Set(percolator.Cell{Table: "hints", Row: row, Column: "in"}, []byte("v"))
	})
	fixture.Must(t, err)
	return ts
}

func question(columns ...percolator.Cell) dispatch.Question {
	return dispatch.Question{Columns: columns, Most: 8, Wait: 20 * time.Second}
}

func hintEnv(t *testing.T) *percolatortest.Env {
	t.Helper()
	return percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "hints", Observed: []string{"in"}, Weak: []string{"w"}}}})
}

func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	if !fixture.Until(fixture.Context(t), cond) {
		t.Fatalf("never happened: %s", what)
	}
}

// What one process notifies, another one hears of: which cell, and when.
func TestNotificationsOfOtherProcesses(t *testing.T) {
	t.Parallel()
	env := hintEnv(t)
	direct := percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = env.Oracle })
	writer, worker := env.NewClient(direct), env.NewClient(direct)
	type answer struct {
		ns  []model.Notification
		err error
	}
	in, weak := percolator.Cell{Table: "hints", Column: "in"}, percolator.Cell{Table: "hints", Column: "w"}
	heard := make(chan answer, 1)
	go func() {
		ns, err := worker.Engine().Dispatch.AwaitNotifications(fixture.Context(t), question(in, weak))
		heard <- answer{ns.Notified, err}
	}()
	row := "a row\x00\xff"
	var last tso.Timestamp
	var got answer
	until(t, "the worker heard", func() bool { // it may have started to listen after the first write
		last = setObserved(t, writer, row)
		select {
		case got = <-heard:
			return true
		default:
			return false
		}
	})
	if got.err != nil || len(got.ns) == 0 {
		t.Fatal(got)
	}
	for _, n := range got.ns {
		if n.Cell != (percolator.Cell{Table: "hints", Row: row, Column: "in"}) || n.Timestamp <= 0 || n.Timestamp > last {
			t.Errorf("heard of %+v", n)
		}
	}

	// Weak notifications too.
	_, err := writer.Update(fixture.Context(t), func(_ context.Context, tx *percolator.Txn) error {
		return tx.Notify(percolator.Cell{Table: "hints", Row: "r", Column: "w"})
	})
	fixture.Must(t, err)
	for {
		ns, err := worker.Engine().Dispatch.AwaitNotifications(fixture.Context(t), question(weak))
		fixture.Must(t, err)
		if ns := ns.Notified; len(ns) > 0 {
			if ns[0].Cell != (percolator.Cell{Table: "hints", Row: "r", Column: "w"}) {
				t.Errorf("heard of %+v", ns[0])
			}
			break
		}
	}
}

// What somebody in the process takes up is not hinted at; what merely listens takes nothing up.
func TestHintsOnlyOfWhatNobodyTakes(t *testing.T) {
	t.Parallel()
	env, s := hintEnv(t), &hintService{want: true}
	c := s.client(env, false)
	remove := c.Engine().Dispatch.HandleNotify(func(n model.Notification) bool { return n.Cell.Row == "mine" })
	c.Engine().Dispatch.HandleNotify(func(model.Notification) bool { return false })
	setObserved(t, c, "mine")
	setObserved(t, c, "theirs")
	until(t, "a hint", func() bool { _, left := s.count(); return left == 1 })
	remove()
	setObserved(t, c, "mine")
	until(t, "another hint", func() bool { _, left := s.count(); return left == 2 })
	ns, err := c.Engine().Dispatch.AwaitNotifications(fixture.Context(t), question(percolator.Cell{Table: "hints", Column: "in"}))
	fixture.Must(t, err)
	if ns := ns.Notified; len(ns) != 2 || ns[0].Cell.Row != "theirs" || ns[1].Cell.Row != "mine" {
		t.Errorf("left: %+v", ns)
	}

	// What no client has sent is passed over.
	s.mu.Lock()
	s.left = []coordination.Hint{{Topic: 1, Data: "12345678row"}, {}, {Data: "short"}}
	s.mu.Unlock()
	if ns, err = c.Engine().Dispatch.AwaitNotifications(fixture.Context(t), question(percolator.Cell{Table: "hints", Column: "in"})); err != nil || len(ns.Notified)+len(ns.HandedOver) != 0 {
		t.Errorf("heard of %v, %v", ns, err)
	}
	fixture.Must(t, c.Close())
	_, err = c.Engine().Dispatch.AwaitNotifications(fixture.Context(t), question())
	fixture.WantErr(t, err, percolator.ErrClosed)
}

// Hints that nobody wants, and a service that does not answer, cost a request now and then, and no
// commit waits for them.
func TestHintsNobodyWants(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testHintsNobodyWants)
}

func testHintsNobodyWants(t *testing.T) {
	for name, s := range map[string]*hintService{"refused": {}, "down": {down: true}} {
		env := hintEnv(t)
		c := s.client(env, false)
		started := time.Now()
		setObserved(t, c, "first")
		until(t, "a request", func() bool { calls, _ := s.count(); return calls > 0 })
		for range 200 {
			setObserved(t, c, "r")
		}
		// Two may be under way before the first answer; then one a second.
		if calls, _ := s.count(); calls > 3+int(time.Since(started)/time.Second) {
			t.Errorf("%s: %d requests for 201 notifications", name, calls)
		}
	}
}

func TestDisableHints(t *testing.T) {
	t.Parallel()
	env, s := hintEnv(t), &hintService{want: true}
	c := s.client(env, true)
	setObserved(t, c, "r")
	fixture.Must(t, c.Close()) // waits for senders
	if calls, _ := s.count(); calls != 0 {
		t.Errorf("%d requests", calls)
	}
	_, err := s.client(env, true).Engine().Dispatch.AwaitNotifications(fixture.Context(t), question())
	fixture.WantErr(t, err, tso.ErrUnsupported)
	_, err = env.NewClient().Engine().Dispatch.AwaitNotifications(fixture.Context(t), question()) // an oracle that passes none on
	fixture.WantErr(t, err, tso.ErrUnsupported)
}

// What was committed is told before Flush and Close return, also by a client that lived for one
// commit.
func TestFlushAndCloseHandOverHints(t *testing.T) {
	t.Parallel()
	env := hintEnv(t)
	for _, end := range []struct {
		name string
		of   func(*percolator.Client) error
	}{
		{"Flush", func(c *percolator.Client) error { return c.Flush(fixture.Context(t)) }},
		{"Close", (*percolator.Client).Close},
	} {
		for _, rows := range []int{1, 700} { // 700 take three requests
			s := &hintService{want: true}
			c := s.client(env, false)
			_, err := c.Update(fixture.Context(t), func(_ context.Context, tx *percolator.Txn) error {
				for i := range rows {
					if err := tx.Set(percolator.Cell{Table: "hints", Row: fmt.Sprint(end.name, i), Column: "in"}, nil); err != nil {
						return err
					}
				}
				return nil
			})
			fixture.Must(t, err)
			fixture.Must(t, end.of(c))
			if _, left := s.count(); left != rows {
				t.Errorf("%s: %d of %d hints were left", end.name, left, rows)
			}
		}
	}
}

// A service of hints that never answers holds nobody up for long.
func TestFlushDoesNotWaitForASilentHintService(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		s := &silentHints{}
		env := hintEnv(t)
		c := env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { s.Oracle, cfg.Oracle = cfg.Oracle, s }))
		setObserved(t, c, "r")
		began := time.Now()
		fixture.Must(t, c.Flush(fixture.Context(t)))
		if took := time.Since(began); took > time.Second {
			t.Errorf("Flush took %v", took)
		}
		began = time.Now()
		fixture.Must(t, c.Close())
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// silentHints never answers.
type silentHints struct{ tso.Oracle }

func (*silentHints) LeaveHints(ctx context.Context, _ []coordination.Hint) ([]uint64, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (*silentHints) TakeHints(ctx context.Context, _ []uint64, _ int, _ time.Duration) ([]coordination.Hint, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
