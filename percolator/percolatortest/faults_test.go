package percolatortest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso"
)

func TestEffectsOnCheckAndMutateRow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		effect    Effect
		code      codes.Code
		stored    string
		delivered int64
	}{
		{Pass, codes.OK, "v", 1},
		{LoseRequest, codes.Unavailable, "", 0},
		{LoseAnswer, codes.Unavailable, "v", 1},
		{Duplicate, codes.OK, "v", 2},
		{Crash, codes.PermissionDenied, "", 0},
	} {
		t.Run(c.effect.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.faults.Handle(always(c.effect))
			wantCode(t, b.checkAndSet(testContext(t), "r", "v"), c.code)
			b.wantStored(t, "r", c.stored)
			if n := b.delivered.Load(); n != c.delivered {
				t.Errorf("delivered %d times, want %d", n, c.delivered)
			}
		})
	}
}

func TestNilActionAndNilHandlerPass(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.faults.Handle(always(nil))
	wantCode(t, b.checkAndSet(testContext(t), "r", "1"), codes.OK)
	b.wantStored(t, "r", "1")
	b.faults.Handle(nil)
	wantCode(t, b.checkAndSet(testContext(t), "r", "2"), codes.OK)
	b.wantStored(t, "r", "2")
}

func TestDuplicateAnswersWithTheFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.faults.Handle(always(Duplicate))
	got, err := b.add(testContext(t), "r")
	if err != nil || got != "+" {
		t.Errorf("answer %q, %v, want that of the first delivery", got, err)
	}
	b.wantStored(t, "r", "++")
}

// Google's client repeats these after Unavailable; the repetition is one more request.
func TestEffectsOnRepeatedRequests(t *testing.T) {
	t.Parallel()
	requests := map[string]func(ctx context.Context, b *bench) error{
		MutateRow: func(ctx context.Context, b *bench) error { return b.table.Apply(ctx, "r", set("v")) },
		MutateRows: func(ctx context.Context, b *bench) error {
			errs, err := b.table.ApplyBulk(ctx, []string{"r", "s"}, []*bigtable.Mutation{set("v"), set("v")})
			return errors.Join(append(errs, err)...)
		},
		ReadRows: func(ctx context.Context, b *bench) error {
			n := 0
			err := b.table.ReadRows(ctx, bigtable.RowList{"old1", "old2"}, func(bigtable.Row) bool { n++; return true })
			if n != 2 {
				return errors.Join(err, fmt.Errorf("%d rows, want 2", n))
			}
			return err
		},
		SampleRowKeys: func(ctx context.Context, b *bench) error {
			keys, err := b.table.SampleRowKeys(ctx)
			if !slices.Contains(keys, "old2") {
				return errors.Join(err, fmt.Errorf("sampled %q", keys))
			}
			return err
		},
	}
	for method, send := range requests {
		for effect, deliveries := range map[Effect]int64{Pass: 1, LoseRequest: 1, LoseAnswer: 2, Duplicate: 2} {
			t.Run(method+"/"+effect.String(), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				ctx := testContext(t)
				for _, row := range []string{"old1", "old2"} {
					if err := b.plain.Apply(ctx, row, set("old")); err != nil {
						t.Fatal(err)
					}
				}
				b.faults.Handle(first(effect))
				if err := send(ctx, b); err != nil {
					t.Error(err)
				}
				if method == MutateRow || method == MutateRows {
					b.wantStored(t, "r", "v")
				}
				if n := b.delivered.Load(); n != deliveries {
					t.Errorf("delivered %d times, want %d", n, deliveries)
				}
				wantRequests := 1
				if effect == LoseRequest || effect == LoseAnswer {
					wantRequests = 2
				}
				rs := b.faults.Requests()
				if len(rs) != wantRequests || rs[0].Method != method {
					t.Errorf("recorded %v, want %d of %s", rs, wantRequests, method)
				}
			})
		}
	}
}

func TestCrashEndsEverythingOfTheClient(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := NewHold()
	b.faults.Handle(func(r Request) Action {
		switch r.Row {
		case "held":
			return h
		case "crash":
			return Crash
		}
		return Pass
	})
	ctx := testContext(t)
	sent := make(chan error)
	go func() { sent <- b.checkAndSet(ctx, "held", "v") }()
	h.Wait(t, 1)

	wantCode(t, b.checkAndSet(ctx, "crash", "v"), codes.PermissionDenied)
	wantCode(t, <-sent, codes.PermissionDenied) // the caller of what is held is dead too
	wantCode(t, b.checkAndSet(ctx, "r", "v"), codes.PermissionDenied)
	_, err := b.table.ReadRow(ctx, "r")
	wantCode(t, err, codes.PermissionDenied)
	oracle := clientOracle{faults: b.faults, oracle: &counter{}}
	_, err = oracle.Next(ctx)
	wantCode(t, err, codes.PermissionDenied)
	if !b.faults.Crashed() {
		t.Error("Crashed() = false")
	}
	if n := b.delivered.Load(); n != 0 {
		t.Errorf("delivered %d times", n)
	}
	h.Release() // it was on the way when the client died
	b.wantStored(t, "held", "v")
}

func TestPausedClientGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.faults.Pause()
	b.faults.Pause() // no difference
	ctx := testContext(t)
	gone, leave := context.WithCancel(ctx)
	leave()
	wantCode(t, b.checkAndSet(gone, "gone", "v"), codes.Canceled)

	var eg errgroup.Group
	eg.Go(func() error { return b.checkAndSet(ctx, "r", "v") })
	eg.Go(func() error {
		_, err := clientOracle{faults: b.faults, oracle: &counter{}}.Next(ctx)
		return err
	})
	if rs := b.faults.Requests(); len(rs) != 0 {
		t.Errorf("a paused client sent %v", rs)
	}
	b.faults.Resume()
	b.faults.Resume()
	if err := eg.Wait(); err != nil {
		t.Error(err)
	}
	b.wantStored(t, "r", "v")
	b.wantStored(t, "gone", "")
}

// counter is an oracle that counts.
type counter struct{ last atomic.Int64 }

func (c *counter) Next(context.Context) (tso.Timestamp, error) {
	return tso.Timestamp(c.last.Add(1)), nil
}

func isNil(err error) bool   { return err == nil }
func isCrash(err error) bool { return status.Code(err) == codes.PermissionDenied }

// isUnavailable wants what tso.Client answers: it has no code.
func isUnavailable(err error) bool {
	return errors.Is(err, tso.ErrUnavailable) && status.Code(err) == codes.Unknown
}

func TestEffectsOnOracle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		effect Effect
		fails  func(error) bool
		want   tso.Timestamp
		asked  int64
	}{
		{Pass, isNil, 1, 1},
		{LoseRequest, isUnavailable, 0, 0},
		{LoseAnswer, isUnavailable, 0, 1},
		{Duplicate, isNil, 1, 2},
		{Crash, isCrash, 0, 0},
	} {
		t.Run(c.effect.String(), func(t *testing.T) {
			t.Parallel()
			f := newFaults("c")
			f.Handle(always(c.effect))
			var n counter
			got, err := clientOracle{faults: f, oracle: &n}.Next(testContext(t))
			if !c.fails(err) || got != c.want || n.last.Load() != c.asked {
				t.Errorf("%v, got %d after %d timestamps, want %d after %d", err, got, n.last.Load(), c.want, c.asked)
			}
			if rs := f.Requests(); len(rs) != 1 || rs[0].Method != Oracle {
				t.Errorf("recorded %v", rs)
			}
		})
	}
}

func TestHandlerIsAskedInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	last := 0 // unguarded on purpose: one call at a time
	b.faults.Handle(func(r Request) Action {
		if r.Seq != last+1 {
			t.Errorf("request %d after %d", r.Seq, last)
		}
		last = r.Seq
		return Pass
	})
	ctx := testContext(t)
	var eg errgroup.Group
	for i := range 50 {
		eg.Go(func() error { return b.checkAndSet(ctx, fmt.Sprint(i), "v") })
	}
	if err := eg.Wait(); err != nil || last != 50 {
		t.Errorf("%v after %d requests", err, last)
	}
}

func TestRequestSaysWhatIsSent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := testContext(t)
	prewrite := bigtable.NewCondMutation(bigtable.PassAllFilter(), nil, set("v"))
	commit := bigtable.NewMutation()
	commit.Set("write", "c", 2000, []byte("w"))
	commit.DeleteTimestampRange("lock", "c", 1000, 2000)
	for _, err := range []error{
		b.table.Apply(ctx, "a", prewrite),
		b.table.Apply(ctx, "a", bigtable.NewCondMutation(bigtable.PassAllFilter(), commit, nil)),
		b.table.ReadRows(ctx, bigtable.RowList{"x", "y", "z"}, func(bigtable.Row) bool { return true }),
		b.table.ReadRows(ctx, bigtable.NewRange("m", "n"), func(bigtable.Row) bool { return true }),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.table.ApplyBulk(ctx, []string{"b", "c"}, []*bigtable.Mutation{commit, commit}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range b.faults.Requests() {
		got = append(got, fmt.Sprintf("%v | %d | sets lock %v, write %v; erases lock %v", r, r.Rows, r.Sets("lock"), r.Sets("write"), r.Erases("lock")))
	}
	want := []string{
		`c #1 CheckAndMutateRow t "a" | 1 | sets lock true, write false; erases lock false`,
		`c #2 CheckAndMutateRow t "a" | 1 | sets lock false, write true; erases lock true`,
		`c #3 ReadRows t "x" and 2 more | 3 | sets lock false, write false; erases lock false`,
		`c #4 ReadRows t "m" | 0 | sets lock false, write false; erases lock false`,
		`c #5 MutateRows t "b" and 1 more | 2 | sets lock false, write true; erases lock true`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if _, ok := b.faults.Requests()[0].Message.(*btpb.CheckAndMutateRowRequest); !ok {
		t.Errorf("message %T", b.faults.Requests()[0].Message)
	}
	b.faults.Forget()
	if rs := b.faults.Requests(); len(rs) != 0 {
		t.Errorf("after Forget: %v", rs)
	}
}

func TestRecordIsBounded(t *testing.T) {
	t.Parallel()
	f := newFaults("c")
	oracle := clientOracle{faults: f, oracle: &counter{}}
	for range maxRecorded + 1 {
		if _, err := oracle.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	rs := f.Requests()
	if len(rs) > maxRecorded || rs[len(rs)-1].Seq != maxRecorded+1 {
		t.Errorf("%d recorded, the last is %v", len(rs), rs[len(rs)-1])
	}
}

// When the test ends, what is still held does not keep the client from closing.
func TestEndGivesUpWhatIsHeld(t *testing.T) {
	t.Parallel()
	f := newFaults("c")
	h := NewHold()
	f.Handle(always(h))
	oracle := clientOracle{faults: f, oracle: &counter{}}
	asked := make(chan error)
	go func() {
		_, err := oracle.Next(testContext(t))
		asked <- err
	}()
	h.Wait(t, 1)
	f.end()
	if err := <-asked; !isUnavailable(err) {
		t.Error(err)
	}
	if _, err := oracle.Next(t.Context()); err != nil {
		t.Errorf("after the end: %v", err)
	}
}
