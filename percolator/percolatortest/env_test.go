package percolatortest

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

var schema = &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: []string{"watched"}}}}

func cell(row, column string) percolator.Cell {
	return percolator.Cell{Table: "t", Row: row, Column: column}
}

func mustSet(t *testing.T, c *percolator.Client, value string, cells ...percolator.Cell) tso.Timestamp {
	t.Helper()
	ts, err := c.Update(testContext(t), func(_ context.Context, tx *percolator.Txn) error {
		for _, cell := range cells {
			if err := tx.Set(cell, []byte(value)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return ts
}

func get(ctx context.Context, c *percolator.Client, cell percolator.Cell) (value string, err error) {
	err = c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		b, err := s.Get(ctx, cell)
		value = string(b)
		return err
	})
	return value, err
}

func TestClientsShareStoreAndOracle(t *testing.T) {
	t.Parallel()
	env := New(t, schema)
	other := env.NewClient(Name("other"))
	mustSet(t, env.Client, "v", cell("r", "c"))
	if got, err := get(testContext(t), other, cell("r", "c")); err != nil || got != "v" {
		t.Errorf("the other client reads %q, %v", got, err)
	}
	for c, want := range map[*percolator.Client]string{env.Client: "client-1", other: "other"} {
		rs := env.FaultsOf(c).Requests()
		if len(rs) == 0 || rs[0].Client != want {
			t.Errorf("requests of %s: %v", want, rs)
		}
	}
	env.FaultsOf(env.Client).Crash()
	if got, err := get(testContext(t), other, cell("r", "c")); err != nil || got != "v" {
		t.Errorf("after the first has crashed the other reads %q, %v", got, err)
	}
}

func TestOptionsConnectWithoutFaults(t *testing.T) {
	t.Parallel()
	env := New(t, schema)
	env.FaultsOf(env.Client).Crash()
	opts := env.Options()
	for range 2 {
		c, err := percolator.NewClient(testContext(t), percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle}, opts...)
		if err != nil {
			t.Fatal(err)
		}
		mustSet(t, c, "v", cell("r", "c"))
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestEnvironmentsAreApart(t *testing.T) {
	t.Parallel()
	one, two := New(t, schema), New(t, schema)
	mustSet(t, one.Client, "v", cell("r", "c"))
	if got, err := get(testContext(t), two.Client, cell("r", "c")); !errors.Is(err, percolator.ErrNotFound) {
		t.Errorf("the other environment reads %q, %v, want ErrNotFound", got, err)
	}
}

func TestEnvironmentLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s, err := emulator.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	var instance string
	t.Run("environment", func(t *testing.T) {
		env := New(t, schema, Address(s.Addr()))
		instance = env.Instance
		mustSet(t, env.Client, "v", cell("r", "c"))
	})
	admin, err := bigtable.NewAdminClient(testContext(t), "percolatortest", instance, s.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	if tables, err := admin.Tables(testContext(t)); err != nil || len(tables) != 0 {
		t.Errorf("left behind: %q, %v", tables, err)
	}
}

func TestConfigureAndHandlerApplyFromTheStart(t *testing.T) {
	t.Parallel()
	asked := 0
	env := New(t, schema,
		Configure(func(cfg *percolator.Config) { cfg.DisableBatching, cfg.Logger = true, slog.New(slog.DiscardHandler) }),
		Handler(func(Request) Action { asked++; return Pass }))
	if env.FaultsOf(env.Client).Handle(nil); asked == 0 {
		t.Error("the handler was not asked while the client was made")
	}
}

func TestOracleFollowsTheClock(t *testing.T) {
	t.Parallel()
	env := New(t, schema)
	ctx := testContext(t)
	next := func() tso.Timestamp {
		ts, err := env.Oracle.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return ts
	}
	before := next()
	env.Clock.Advance(time.Hour)
	after := next()
	if d := after.Sub(before); d < time.Hour || d > time.Hour+time.Minute {
		t.Errorf("an hour's advance moved the oracle by %v", d)
	}
	env.Clock.Stop()
	env.Clock.Stop()
	if a, b := env.Clock.Now(), env.Clock.Now(); !a.Equal(b) {
		t.Errorf("a stopped clock went from %v to %v", a, b)
	}
	env.Clock.Advance(time.Second)
	last := next()
	env.Clock.Advance(-2 * time.Hour)
	if again := next(); again <= last {
		t.Errorf("after the clock went back: %d after %d", again, last)
	}
}

// A lock that its owner left behind stops readers until its time is over; the clock's, not the
// test's.
func TestAdvanceMakesLocksDead(t *testing.T) {
	t.Parallel()
	env := New(t, schema)
	mustSet(t, env.Client, "old", cell("a", "c"), cell("b", "c"))

	writer := env.NewClient(Name("writer"), Configure(func(cfg *percolator.Config) { cfg.LockTTL = 10 * time.Second }))
	env.FaultsOf(writer).Handle(func(r Request) Action {
		if r.Sets("write") {
			return Crash
		}
		return Pass
	})
	_, err := writer.Update(testContext(t), func(_ context.Context, tx *percolator.Txn) error {
		return errors.Join(tx.Set(cell("a", "c"), []byte("new")), tx.Set(cell("b", "c"), []byte("new")))
	}, percolator.MaxAttempts(1))
	if err == nil {
		t.Fatal("the dead client's commit succeeded")
	}
	if got := env.Dump("t"); strings.Count(got, "primary") != 2 {
		t.Fatalf("want two locks:\n%s", got)
	}

	// The reader has looked at the primary, found the lock alive, and asks again.
	reader, looked := env.NewClient(), NewHold()
	env.FaultsOf(reader).Handle(func(r Request) Action {
		if r.Method == ReadRows && r.Table == "t" && r.Row == "a" {
			return looked.Copy()
		}
		return Pass
	})
	type result struct {
		value string
		err   error
	}
	read := make(chan result)
	go func() {
		v, err := get(testContext(t), reader, cell("b", "c"))
		read <- result{v, err}
	}()
	looked.Wait(t, 2)
	select {
	case got := <-read:
		t.Fatalf("read %v past a live lock", got)
	default:
	}
	env.Clock.Advance(11 * time.Second)
	if got := <-read; got.err != nil || got.value != "old" {
		t.Errorf("read %q, %v, want the old value", got.value, got.err)
	}
}

func TestDumpShowsEveryCell(t *testing.T) {
	t.Parallel()
	env := New(t, schema)
	ctx := testContext(t)
	mustSet(t, env.Client, "one", cell("a", "c"), cell("b\x00\n", "watched"))
	mustSet(t, env.Client, strings.Repeat("long ", 20), cell("a", "c"))
	if _, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Delete(cell("a", "c")) }); err != nil {
		t.Fatal(err)
	}
	foreign := bigtable.NewMutation()
	last, err := env.Oracle.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	foreign.Set("lock", "c", bigtable.Timestamp(last)*1000, []byte("nonsense"))
	foreign.Set("write", "c", bigtable.Timestamp(last)*1000, []byte("nonsense"))
	if err := env.Store().Open("t").Apply(ctx, "z", foreign); err != nil {
		t.Fatal(err)
	}
	const want = `key  c:data                                                c:lock                         c:write
a    6:                                                    6:                             6: delete @ 5
     4:                                                    4:                             4: data @ 3
     3: "long long long long long long lo"… (100 bytes)    3:                             3:
     2:                                                    2:                             2: data @ 1
     1: one                                                1:                             1:
z    7:                                                    7: lock that cannot be decoded 7: record that cannot be decoded

key         watched:data  watched:lock  watched:write  watched:notify
"b\x00\n"   2:            2:            2: data @ 1    2: notify
            1: one        1:            1:             1:
`
	got := env.DumpFrom("t", 1)
	if squeeze(got) != squeeze(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if raw := env.Dump("t"); strings.Count(raw, "\n") != strings.Count(want, "\n") || strings.Contains(raw, " 1: one") {
		t.Errorf("with the timestamps as they are:\n%s", raw)
	}
}

// squeeze makes the width of columns irrelevant.
func squeeze(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// What a process does that has joined an environment, the others see.
func TestOthersSeeWhatJoinedProcessesDo(t *testing.T) {
	t.Parallel()
	env := New(t, schema, Listen())
	env.Clock.Stop()
	joined := Join(t, env.Location())
	c := joined.NewClient()
	joined.FaultsOf(c).Forget()
	ts := mustSet(t, c, "v", cell("r", "c"))
	if n := len(joined.FaultsOf(c).Requests()); n == 0 {
		t.Error("the client that has joined has no faults")
	}
	s, err := env.Client.Snapshot(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get(testContext(t), cell("r", "c")); err != nil || string(v) != "v" || s.StartTimestamp() <= ts {
		t.Errorf("at %d %q, %v; committed at %d", s.StartTimestamp(), v, err, ts)
	}
}
