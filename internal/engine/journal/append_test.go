package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// table is a store of one table, whose answers a test decides.
type table struct {
	store.Backend
	t interface{ Errorf(string, ...any) }

	mu       sync.Mutex
	rows     map[string][]byte // batches; of a header its session
	inFlight map[StreamID]uint64
	// answer decides what becomes of a row: stored or not, and the error. It may wait.
	answer func(ctx context.Context, id StreamID, seq uint64) (stored bool, err error)
}

func (b *table) MutateRows(ctx context.Context, name string, rows []string, muts []*store.Mutation) ([]error, error) {
	id, seq, ok := parseKey(rows[0])
	if !ok || name != model.JournalTable || len(rows) != 1 {
		b.t.Errorf("a mutation of rows %q of %s", rows, name)
	}
	b.mu.Lock()
	if before, busy := b.inFlight[id]; busy {
		b.t.Errorf("row %d of a stream is sent while row %d is in flight", seq, before)
	}
	if _, opened := b.rows[id.key(0)]; seq > 0 && !opened {
		b.t.Errorf("row %d of a stream is sent before its header was acknowledged (J3)", seq)
	}
	value := muts[0].Changes()[0].Value
	if had, sent := b.rows[rows[0]]; sent && seq > 0 && string(had) != string(value) {
		b.t.Errorf("row %d was sent with other entries", seq)
	}
	b.inFlight[id] = seq
	b.mu.Unlock()
	stored, err := true, error(nil)
	if b.answer != nil {
		stored, err = b.answer(ctx, id, seq)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.inFlight, id)
	if stored {
		b.rows[rows[0]] = value
	}
	return nil, err
}

func (b *table) Close() error { return nil }

// count is how many rows hold an entry of a transaction.
func (b *table) count(t *testing.T, ts tso.Timestamp) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, value := range b.rows {
		if _, seq, _ := parseKey(key); seq == 0 {
			continue
		}
		list, err := DecodeBatch(value)
		if err != nil {
			t.Error(err)
		}
		if slices.ContainsFunc(list, func(e model.JournalEntry) bool { return e.StartTS == ts }) {
			n++
		}
	}
	return n
}

const lifetime = 30 * time.Second

// newAppender is an appender on a table of its own.
func newAppender(t testing.TB, b *table, session func(context.Context) string) *Appender {
	b.t, b.rows, b.inFlight = t, map[string][]byte{}, map[StreamID]uint64{}
	ctx, cancel := context.WithCancel(context.Background())
	s := store.New(ctx, b, &telemetry.Counters{})
	s.Timing.RequestLifetime = lifetime
	if session == nil {
		session = func(context.Context) string { return "session" }
	}
	a := NewAppender(ctx, s, session)
	t.Cleanup(func() { cancel(); a.Close() })
	return a
}

func entryOf(ts int) *model.JournalEntry {
	row := fmt.Sprint("row-", ts)
	return &model.JournalEntry{StartTS: tso.Timestamp(ts), Primary: model.Cell{Table: "t", Row: row, Column: "c"}, Rows: []model.JournalName{{Table: "t", Key: row}}}
}

// appendEntry appends an entry and waits for it.
func appendEntry(ctx context.Context, a *Appender, e *model.JournalEntry) error {
	w, err := a.Append(ctx, e)
	if err != nil {
		return err
	}
	return w.Wait(ctx)
}

// TestEntriesShareRows: entries that come while rows are in flight travel together, and each is
// stored when its transaction hears so.
func TestEntriesShareRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &table{answer: func(ctx context.Context, _ StreamID, _ uint64) (bool, error) {
			time.Sleep(5 * time.Millisecond)
			return true, nil
		}}
		a := newAppender(t, b, nil)
		const workers, each = 64, 20
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for i := range each {
					ts := 1 + w*each + i
					if err := appendEntry(t.Context(), a, entryOf(ts)); err != nil || b.count(t, tso.Timestamp(ts)) != 1 {
						t.Errorf("transaction %d is in %d rows: %v", ts, b.count(t, tso.Timestamp(ts)), err)
					}
				}
			})
		}
		all.Wait()
		if rows := len(b.rows) - MaxStreams; rows > workers*each/4 {
			t.Errorf("%d entries of %d at a time took %d rows", workers*each, workers, rows)
		}
	})
}

// TestLateRowIsAppendedElsewhere: a shard that does not answer holds up a commit for hedgeAfter.
func TestLateRowIsAppendedElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var first StreamID
		b := &table{}
		b.answer = func(ctx context.Context, id StreamID, seq uint64) (bool, error) {
			if first == "" {
				first = id
			}
			if id == first && seq > 0 {
				<-ctx.Done()
				return true, ctx.Err()
			}
			return true, nil
		}
		a := newAppender(t, b, nil)
		started := time.Now()
		if err := appendEntry(t.Context(), a, entryOf(1)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started); took < hedgeAfter || took > hedgeAfter+time.Second {
			t.Errorf("it took %v", took)
		}
		for ts := 2; ts < 20; ts++ { // nobody else is held up
			started := time.Now()
			if err := appendEntry(t.Context(), a, entryOf(ts)); err != nil || time.Since(started) > time.Millisecond {
				t.Errorf("transaction %d took %v: %v", ts, time.Since(started), err)
			}
		}
		time.Sleep(lifetime)
		synctest.Wait()
		if a.stuck != 0 || len(a.streams) > MaxStreams {
			t.Errorf("%d streams are stuck, %d in use", a.stuck, len(a.streams))
		}
	})
}

// TestEachPartIsAcknowledged: two acknowledgments of a part that was appended elsewhere too are
// none of the other part (J1).
func TestEachPartIsAcknowledged(t *testing.T) {
	t.Parallel()
	b := &table{}
	a := newAppender(t, b, nil)
	w := &Append{entry: entryOf(1), left: 2, done: make(chan struct{})}
	twice, once := &part{entry: w.entry, of: w, copies: 2}, &part{entry: w.entry, of: w, copies: 1}
	acknowledged := func() bool {
		select {
		case <-w.done:
			return true
		default:
			return false
		}
	}
	for range 2 {
		a.answered(&stream{}, []*part{twice}, nil)
		if acknowledged() {
			t.Fatal("an entry is acknowledged of which a part is not")
		}
	}
	a.answered(&stream{}, []*part{once}, nil)
	if !acknowledged() || w.err != nil {
		t.Errorf("all parts of an entry are acknowledged, and it is not: %v", w.err)
	}
}

// TestEntryWithoutAnAnswerFails: where no shard answers, the transaction learns within the request
// lifetimes of its copies that it has to abort, and the appender recovers.
func TestEntryWithoutAnAnswerFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		b := &table{answer: func(ctx context.Context, _ StreamID, _ uint64) (bool, error) {
			if down.Load() {
				<-ctx.Done()
				return false, status.FromContextError(ctx.Err()).Err()
			}
			return true, nil
		}}
		a := newAppender(t, b, nil)
		started := time.Now()
		err := appendEntry(t.Context(), a, entryOf(1))
		if status.Code(errors.Unwrap(err)) != codes.DeadlineExceeded || time.Since(started) > lifetime {
			t.Errorf("after %v: %v", time.Since(started), err)
		}
		down.Store(false)
		time.Sleep(3 * lifetime)
		if err := appendEntry(t.Context(), a, entryOf(2)); err != nil {
			t.Error(err)
		}
	})
}

// TestRefusedEntryFailsAtOnce: what does not pass by itself is no reason to wait.
func TestRefusedEntryFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &table{answer: func(context.Context, StreamID, uint64) (bool, error) {
			return false, status.Error(codes.PermissionDenied, "no right to mutate rows")
		}}
		a := newAppender(t, b, nil)
		started := time.Now()
		if err := appendEntry(t.Context(), a, entryOf(1)); status.Code(errors.Unwrap(errors.Unwrap(err))) != codes.PermissionDenied || time.Since(started) > 0 {
			t.Errorf("after %v: %v", time.Since(started), err)
		}
	})
}

// TestAppendsToStreamsOfThePresentSession (J3).
func TestAppendsToStreamsOfThePresentSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, session := &table{}, "first"
		a := newAppender(t, b, func(context.Context) string { return session })
		of := func() map[string]int {
			n := map[string]int{}
			for key := range b.rows {
				if id, seq, _ := parseKey(key); seq > 0 {
					h, err := decodeHeader(b.rows[id.key(0)])
					if err != nil {
						t.Error(err)
					}
					n[h.Session]++
				}
			}
			return n
		}
		for ts := range 5 {
			if err := appendEntry(t.Context(), a, entryOf(1+ts)); err != nil {
				t.Fatal(err)
			}
		}
		session = "second"
		for ts := range 3 {
			if err := appendEntry(t.Context(), a, entryOf(10+ts)); err != nil {
				t.Fatal(err)
			}
		}
		if n := of(); n["first"] != 5 || n["second"] != 3 {
			t.Errorf("rows by session: %v", n)
		}
		ended := 0
		for _, s := range a.Own.streams {
			if s.ended {
				ended++
			}
		}
		if ended != 1 || len(a.Own.streams) != 2 {
			t.Errorf("%d of %d streams have ended", ended, len(a.Own.streams))
		}
	})
}

// TestDroppedEntryIsNotSent: an aborted transaction leaves nothing to look at.
func TestDroppedEntryIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		b := &table{answer: func(context.Context, StreamID, uint64) (bool, error) { <-hold; return true, nil }}
		a := newAppender(t, b, nil)
		var waits []*Append
		for ts := range 10 {
			w, err := a.Append(t.Context(), entryOf(1+ts))
			if err != nil {
				t.Fatal(err)
			}
			waits = append(waits, w)
			synctest.Wait()
		}
		a.Drop(waits[8])
		close(hold)
		for i, w := range waits {
			if i != 8 && w.Wait(t.Context()) != nil {
				t.Error(i)
			}
		}
		if n := b.count(t, 9); n != 0 {
			t.Errorf("the dropped entry is in %d rows", n)
		}
	})
}

// TestAppendUnderFaults: whatever happens to requests, an entry that was acknowledged is stored, a
// row keeps its bytes, and each stream has one row in flight (table checks the latter).
func TestAppendUnderFaults(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		fates := rapid.SliceOfN(rapid.IntRange(0, 9), 50, 50).Draw(rt, "fates")
		session := "s"
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			at := 0
			b := &table{answer: func(ctx context.Context, _ StreamID, _ uint64) (bool, error) {
				mu.Lock()
				fate := fates[at%len(fates)]
				at++
				mu.Unlock()
				switch fate {
				case 0: // lost
					return false, status.Error(codes.Unavailable, "lost")
				case 1: // applied, the answer is lost
					return true, status.Error(codes.Unavailable, "lost")
				case 2: // no answer
					<-ctx.Done()
					return fates[0] > 4, status.FromContextError(ctx.Err()).Err()
				case 3: // slow
					time.Sleep(5 * time.Second)
				default:
					time.Sleep(time.Duration(fate) * time.Millisecond)
				}
				return true, nil
			}}
			a := newAppender(t, b, func(context.Context) string { return session })
			var all sync.WaitGroup
			for w := range 8 {
				all.Go(func() {
					for i := range 10 {
						ts := 1 + w*10 + i
						if err := appendEntry(t.Context(), a, entryOf(ts)); err == nil && b.count(t, tso.Timestamp(ts)) == 0 {
							t.Errorf("transaction %d was acknowledged and is not stored", ts)
						}
					}
				})
			}
			all.Wait()
			mu.Lock()
			defer mu.Unlock()
			b.mu.Lock()
			defer b.mu.Unlock()
			for key := range b.rows {
				if id, seq, _ := parseKey(key); len(b.rows[id.key(0)]) == 0 && seq > 0 {
					t.Errorf("row %d has no header", seq)
				}
			}
		})
	})
}

// TestLongEntryHasAStreamOfItsOwn: others neither wait behind it nor share its rows, and it is
// acknowledged when all of its parts are.
func TestLongEntryHasAStreamOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &table{answer: func(context.Context, StreamID, uint64) (bool, error) {
			time.Sleep(5 * time.Millisecond)
			return true, nil
		}}
		a := newAppender(t, b, nil)
		long := entryOf(1)
		for i := range 10_000 {
			long.Rows = append(long.Rows, model.JournalName{Table: "t", Key: fmt.Sprintf("%0600d", i)})
		}
		w, err := a.Append(t.Context(), long)
		if err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		if err := appendEntry(t.Context(), a, entryOf(2)); err != nil || time.Since(started) > 10*time.Millisecond {
			t.Errorf("another entry took %v: %v", time.Since(started), err)
		}
		if err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		streams, rows := map[StreamID]bool{}, map[model.JournalName]bool{}
		for key, value := range b.rows {
			id, seq, _ := parseKey(key)
			if seq == 0 {
				continue
			}
			list, err := DecodeBatch(value)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				if e.StartTS == 1 {
					streams[id] = true
					for _, r := range e.Rows {
						rows[r] = true
					}
				} else if streams[id] {
					t.Error("another entry is in its stream")
				}
			}
		}
		if len(streams) != 1 || len(rows) != len(long.Rows) {
			t.Errorf("%d streams hold %d of %d rows", len(streams), len(rows), len(long.Rows))
		}
		synctest.Wait()
		a.Own.RolledBack(w)
		for range 2 {
			a.Own.Low()
		}
		if n := len(a.Own.streams); n != 1 {
			t.Errorf("%d streams are remembered, want that of the other entry", n)
		}
	})
}
