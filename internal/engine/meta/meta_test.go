package meta_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// metaRows is a store whose meta row is what the test answers.
type metaRows struct {
	store.Backend
	asked chan chan tso.Timestamp // the safepoint that the row holds
}

func (r metaRows) ReadRow(context.Context, string, string, store.Query) (layout.Row, error) {
	answer := make(chan tso.Timestamp)
	r.asked <- answer
	safepoint := binary.BigEndian.AppendUint64(nil, uint64(<-answer))
	return layout.Row{Key: meta.RowKey, Items: []layout.Item{{Family: layout.MetaFamily, Column: "safepoint", Value: safepoint}}}, nil
}

// inWatcherBubble runs f in virtual time, with a client's knowledge of a meta row.
func inWatcherBubble(t *testing.T, f func(t *testing.T, w *meta.Watcher, rows metaRows)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rows := metaRows{asked: make(chan chan tso.Timestamp, 2)}
		s := store.New(t.Context(), rows, &telemetry.Counters{})
		s.Trace = telemetry.NewSpans(nil)
		f(t, &meta.Watcher{Store: s, Clock: &timestamps.Source{Store: s, Oracle: new(layertest.Counter)}, Config: store.Settings{Retention: time.Hour}}, rows)
	})
}

// TestOldKnowledgeIsReadOnce: whoever finds that it is too old shares one request, which outlasts
// the caller that sent it. After a second it may be lost, and the next caller sends another one:
// its answer serves all who wait.
func TestOldKnowledgeIsReadOnce(t *testing.T) {
	inWatcherBubble(t, func(t *testing.T, w *meta.Watcher, rows metaRows) {
		first, leave := context.WithCancel(t.Context())
		answers := make(chan error, 600)
		known := func(ctx context.Context, n int) {
			for range n {
				go func() {
					_, err := w.Known(ctx)
					answers <- err
				}()
			}
			synctest.Wait()
		}
		known(first, 1)
		known(t.Context(), 500)
		lost := <-rows.asked
		if n := len(rows.asked); n > 0 {
			t.Fatalf("%d more requests for 501 reads", n)
		}
		leave()
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has left: %v", err)
		}
		time.Sleep(2 * time.Second)
		known(t.Context(), 50)
		second := <-rows.asked
		if n := len(rows.asked); n > 0 {
			t.Fatalf("%d more requests for 550 reads beside a lost one", n)
		}
		second <- 7
		for range 550 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		lost <- 6
		synctest.Wait()
		if m, err := w.Known(t.Context()); err != nil || m.Safepoint != 7 {
			t.Errorf("known: %d, %v, want what the later request has read", m.Safepoint, err)
		}
	})
}

// TestSharedKnowledgeIsNeverTooOld: callers come at random, and answers take from nothing to twice
// MetaMaxAge. Whoever gets one gets what the row held at most MetaMaxAge ago (I16).
func TestSharedKnowledgeIsNeverTooOld(t *testing.T) {
	for seed := range uint64(20) {
		inWatcherBubble(t, func(t *testing.T, w *meta.Watcher, rows metaRows) {
			r, oldest := rand.New(rand.NewPCG(seed, 1)), w.Store.Timing.MetaMaxAge
			stop := make(chan struct{})
			began := time.Now()
			go func() { // the row holds the time
				for {
					select {
					case of := <-rows.asked:
						takes := time.Duration(r.Int64N(int64(2 * oldest)))
						if r.IntN(2) == 0 {
							takes /= 50
						}
						held := tso.Timestamp(time.Since(began)) + 1
						go func() {
							time.Sleep(takes)
							of <- held
						}()
					case <-stop:
						return
					}
				}
			}()
			var callers sync.WaitGroup
			known := 0
			var mu sync.Mutex
			for i := range 300 {
				callers.Go(func() {
					time.Sleep(time.Duration(i) * oldest / 40)
					m, err := w.Known(t.Context())
					mu.Lock()
					defer mu.Unlock()
					switch age := time.Since(began) - time.Duration(m.Safepoint); {
					case errors.Is(err, model.ErrSnapshotTooOld):
					case err != nil:
						t.Error(err)
					case age > oldest:
						t.Errorf("seed %d: what was read %v ago is known", seed, age)
					default:
						known++
					}
				})
			}
			callers.Wait()
			if known < 100 {
				t.Errorf("seed %d: only %d of 300 callers got an answer", seed, known)
			}
			synctest.Wait()
			time.Sleep(3 * oldest) // what is in flight ends
			close(stop)
		})
	}
}

// TestKnowledgeIsAsOldAsItsRequest: the row may have been read right after the request was sent, so
// the time until the answer came counts for the age of what it says (I16).
func TestKnowledgeIsAsOldAsItsRequest(t *testing.T) {
	inWatcherBubble(t, func(t *testing.T, w *meta.Watcher, rows metaRows) {
		known := func() (of chan tso.Timestamp) {
			of = make(chan tso.Timestamp, 1)
			go func() {
				m, err := w.Known(t.Context())
				if err != nil {
					t.Error(err)
				}
				of <- m.Safepoint
			}()
			return of
		}
		first, slow := known(), <-rows.asked
		time.Sleep(20 * time.Second)
		slow <- 1
		if got := <-first; got != 1 {
			t.Errorf("the safepoint is %d, want 1", got)
		}
		time.Sleep(w.Store.Timing.MetaMaxAge - 20*time.Second - time.Nanosecond)
		if got := <-known(); got != 1 {
			t.Errorf("the safepoint is %d before it is too old, want 1", got)
		}
		time.Sleep(time.Nanosecond)
		second := known()
		synctest.Wait()
		select {
		case answer := <-rows.asked:
			answer <- 2
		default:
			t.Error("what was asked for MetaMaxAge ago counts as known")
		}
		if got := <-second; got != 2 {
			t.Errorf("the safepoint is %d, want 2", got)
		}
	})
}

// TestKnowledgeAgesByTheWallClock: a machine that was suspended in the middle of a read learns
// nothing of the oracle before it believes what it has read. Its monotonic clock stood still, and
// its wall clock shows the time (I16). A wall clock that was set back makes nothing young.
func TestKnowledgeAgesByTheWallClock(t *testing.T) {
	for shift, want := range map[time.Duration]tso.Timestamp{-time.Hour: 1, 0: 1, time.Minute: 2} {
		t.Run(shift.String(), func(t *testing.T) {
			inWatcherBubble(t, func(t *testing.T, w *meta.Watcher, rows metaRows) {
				var suspended time.Duration
				w.Clock.Wall = func() time.Time { return time.Now().Add(suspended) }
				stop := make(chan struct{})
				defer close(stop)
				go func() {
					for n := tso.Timestamp(1); ; n++ {
						select {
						case of := <-rows.asked:
							of <- n
						case <-stop:
							return
						}
					}
				}()
				known := func(want tso.Timestamp) {
					t.Helper()
					if m, err := w.Known(t.Context()); err != nil || m.Safepoint != want {
						t.Errorf("the safepoint is %d, %v, want %d", m.Safepoint, err, want)
					}
				}
				known(1)
				suspended = shift
				known(want)
				time.Sleep(w.Store.Timing.MetaMaxAge)
				suspended = 0 // what is known is no younger than the process says
				known(want + 1)
			})
		})
	}
}

// TestKnowledgeThatIsTooOldOnArrivalIsReadAgain: a process that was stopped with an answer on its
// way does not believe it, whatever the lifetime of the request (I16).
func TestKnowledgeThatIsTooOldOnArrivalIsReadAgain(t *testing.T) {
	for late, want := range map[int]error{1: nil, meta.MaxTries - 1: nil, meta.MaxTries: model.ErrSnapshotTooOld} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			inWatcherBubble(t, func(t *testing.T, w *meta.Watcher, rows metaRows) {
				type answer struct {
					meta.State
					err error
				}
				got := make(chan answer, 1)
				go func() {
					m, err := w.Known(t.Context())
					got <- answer{m, err}
				}()
				answerAfter := func(d time.Duration, safepoint tso.Timestamp) {
					synctest.Wait()
					select {
					case of := <-rows.asked:
						time.Sleep(d)
						of <- safepoint
					default:
						t.Fatalf("an answer is believed that is too old")
					}
				}
				for range late {
					answerAfter(w.Store.Timing.MetaMaxAge, 1)
				}
				if want == nil {
					answerAfter(w.Store.Timing.MetaMaxAge-time.Nanosecond, 2)
				}
				a := <-got
				if !errors.Is(a.err, want) || want == nil && a.Safepoint != 2 {
					t.Errorf("the safepoint is %d, %v", a.Safepoint, a.err)
				}
			})
		})
	}
}

// TestOlderKnowledgeReplacesNoNewer: an answer that comes after that of a later request changes
// nothing. So what is at or below the newest safepoint stays refused. The clock may show one time
// for both.
func TestOlderKnowledgeReplacesNoNewer(t *testing.T) {
	for _, between := range []time.Duration{time.Second, 0} {
		t.Run(between.String(), func(t *testing.T) { testOlderKnowledge(t, between) })
	}
}

func testOlderKnowledge(t *testing.T, between time.Duration) {
	inWatcherBubble(t, func(t *testing.T, w *meta.Watcher, rows metaRows) {
		refresh := func() (chan tso.Timestamp, chan struct{}) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				if _, err := w.Refresh(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			return <-rows.asked, done
		}
		early, earlyDone := refresh()
		time.Sleep(between)
		late, lateDone := refresh()
		late <- 2
		<-lateDone
		early <- 1
		<-earlyDone
		if m, _ := w.Snapshot(); m.Safepoint != 2 {
			t.Errorf("the safepoint went back to %d", m.Safepoint)
		}
		for ts := range tso.Timestamp(4) {
			if err := w.CheckRead(t.Context(), ts); errors.Is(err, model.ErrSnapshotTooOld) != (ts <= 2) {
				t.Errorf("a snapshot at %d, with the safepoint at 2: %v", ts, err)
			}
		}
	})
}
