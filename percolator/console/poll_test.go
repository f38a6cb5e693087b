package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// fakeSource counts what it is asked.
type fakeSource struct {
	mu    sync.Mutex
	asked map[string]int
	hang  string // the source that answers only when its context ends
	fail  string // the source that fails

	workers []model.WorkerInfo
	reports []model.Report
}

func (f *fakeSource) ask(ctx context.Context, name string) error {
	f.mu.Lock()
	if f.asked == nil {
		f.asked = map[string]int{}
	}
	f.asked[name]++
	hang, fail := f.hang == name, f.fail == name
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if fail {
		return errors.New("broken pipe")
	}
	return nil
}

func (f *fakeSource) counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.asked)
}

func (f *fakeSource) own() model.Report {
	return model.Report{Name: "own", Client: "own", Written: tso.At(time.Now())}
}
func (f *fakeSource) Reports(ctx context.Context) ([]model.Report, error) {
	err := f.ask(ctx, "reports")
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reports, err
}
func (f *fakeSource) Workers(ctx context.Context) (model.Workers, error) {
	err := f.ask(ctx, "workers")
	f.mu.Lock()
	defer f.mu.Unlock()
	return model.Workers{Now: tso.At(time.Now()), Live: f.workers}, err
}
func (f *fakeSource) storage(ctx context.Context) (storage, error) {
	return storage{}, f.ask(ctx, "storage")
}
func (f *fakeSource) pending(ctx context.Context) (pending, error) {
	return newTally(testSchema).pending(), f.ask(ctx, "pending")
}
func (f *fakeSource) letters(ctx context.Context) ([]exportqueue.DeadLetterCount, error) {
	return nil, f.ask(ctx, "letters")
}
func (f *fakeSource) locks(ctx context.Context) (lockList, error) {
	return lockList{}, f.ask(ctx, "locks")
}
func (f *fakeSource) journal(ctx context.Context) (journalState, error) {
	return journalState{}, f.ask(ctx, "journal")
}
func (f *fakeSource) oracle(ctx context.Context) ([]oracleServer, error) {
	return []oracleServer{{OracleServer: health.OracleServer{Address: "a:1", Leading: true}, Server: "a"}}, f.ask(ctx, "oracle")
}

// viewer is a page that is kept live.
type viewer struct {
	header http.Header
	mu     sync.Mutex
	body   bytes.Buffer
	code   int
	leave  context.CancelFunc
	gone   chan struct{}
}

func (v *viewer) Header() http.Header  { return v.header }
func (v *viewer) WriteHeader(code int) { v.code = code }
func (v *viewer) FlushError() error    { return nil }
func (v *viewer) Write(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.body.Write(b)
}

func (v *viewer) received() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.body.String()
}

var eventID = regexp.MustCompile(`(?m)^id: \d+$`)

// ids are the snapshots that the viewer was told of.
func (v *viewer) ids() []string { return eventID.FindAllString(v.received(), -1) }

func watch(h *Handler, page string, header ...string) *viewer {
	r := local(http.MethodGet, "/events?page="+page, nil)
	ctx, leave := context.WithCancel(context.Background())
	v := &viewer{header: http.Header{}, leave: leave, gone: make(chan struct{})}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	go func() {
		defer close(v.gone)
		h.ServeHTTP(v, r.WithContext(ctx))
	}()
	return v
}

// inBubble runs f with a handler on a source that is not real, by a clock that is not either.
func inBubble(t *testing.T, interval time.Duration, f func(t *testing.T, h *Handler, src *fakeSource)) {
	t.Helper()
	inBubbleWith(t, interval, new(fakeSource), f)
}

func inBubbleWith(t *testing.T, interval time.Duration, src *fakeSource, f func(t *testing.T, h *Handler, src *fakeSource)) {
	t.Parallel()
	client := newCluster(t, 1).client // only its schema is looked at
	synctest.Test(t, func(t *testing.T) {
		cfg, err := Config{PollInterval: interval}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		h := newHandler(client, cfg, src)
		f(t, h, src)
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}

// However many pages are live, the sources are asked as often as for one, and all pages are told
// the same.
func TestOnePollForAllViewers(t *testing.T) {
	var alone map[string]int
	for _, viewers := range []int{1, MaxStreams} {
		t.Run(fmt.Sprint(viewers), func(t *testing.T) {
			client := newCluster(t, 1).client
			synctest.Test(t, func(t *testing.T) {
				src := new(fakeSource)
				cfg, _ := Config{}.withDefaults()
				h := newHandler(client, cfg, src)
				var all []*viewer
				for range viewers {
					all = append(all, watch(h, pageOverview))
				}
				time.Sleep(time.Minute + time.Second)
				synctest.Wait()
				asked := src.counts()
				if alone == nil {
					alone = asked
				}
				if !maps.Equal(asked, alone) || asked["oracle"] != 31 || asked["pending"] != 7 || asked["locks"] != 0 || asked["journal"] != 0 {
					t.Errorf("%d viewers: asked %v, for one %v", viewers, asked, alone)
				}
				for _, v := range all {
					if n := len(v.ids()); n != 31 || strings.Count(v.received(), "event: main") != 31 {
						t.Errorf("a viewer was told of %d snapshots", n)
					}
				}
				if err := h.Close(); err != nil {
					t.Error(err)
				}
				for _, v := range all {
					<-v.gone
				}
			})
		})
	}
}

// While nobody watches, the poll goes on at a slow pace, so that whoever comes finds the last hour.
func TestNobodyWatches(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, h *Handler, src *fakeSource) {
		time.Sleep(2 * time.Hour)
		asked := src.counts()
		if n := asked["oracle"]; n < 715 || n > 721 {
			t.Errorf("asked the oracle %d times in two hours, want once in 10 s", n)
		}
		if n := asked["pending"]; n < 100 || n > 121 {
			t.Errorf("walked %d times in two hours, want once a minute", n)
		}
		if asked["locks"] != 0 || asked["journal"] != 0 {
			t.Errorf("asked %v for pages that nobody looks at", asked)
		}
		h.poll.mu.Lock()
		kept := h.poll.history.last()
		h.poll.mu.Unlock()
		if span := kept[len(kept)-1].At.Sub(kept[0].At); span < History {
			t.Errorf("kept %v", span)
		}
		for i, s := range kept {
			if math.IsNaN(s.Values[timestamps]) && i > 0 {
				t.Fatalf("there is a gap at %v", s.At)
			}
		}
		v := watch(h, pageOverview)
		time.Sleep(10 * time.Second)
		if n := src.counts()["oracle"] - asked["oracle"]; n < 5 {
			t.Errorf("asked %d times in 10 s while somebody watches", n)
		}
		v.leave()
		<-v.gone
		time.Sleep(idleAfter + 5*time.Second)
		asked = src.counts()
		time.Sleep(time.Minute)
		if n := src.counts()["oracle"] - asked["oracle"]; n > 7 {
			t.Errorf("asked %d times in a minute when nobody watches any more", n)
		}
	})
}

// A column that nobody takes is named within 10 s, also when its worker has just left, and agrees
// with the list of workers.
func TestNoWorkerTakesAColumn(t *testing.T) {
	worker := model.WorkerInfo{Name: "w", Takes: map[string][][]byte{"documents": {[]byte("contents")}}}
	inBubbleWith(t, 0, &fakeSource{workers: []model.WorkerInfo{worker}}, func(t *testing.T, h *Handler, src *fakeSource) {
		watch(h, pageOverview)
		time.Sleep(10 * time.Second)
		if body := get(t, h, "/"); !strings.Contains(body, "No worker takes the column recount of documents: notifications wait.") {
			t.Errorf("the overview does not name the column that nobody takes:\n%s", body)
		}
		if body := get(t, h, "/workers"); strings.Contains(body, "No worker has announced itself") {
			t.Error("the page of workers has none")
		}
		src.mu.Lock()
		src.workers = nil
		src.mu.Unlock()
		time.Sleep(10 * time.Second)
		if body := get(t, h, "/"); !strings.Contains(body, "No worker takes 2 columns of documents (contents, recount): notifications wait.") || !strings.Contains(body, "No worker runs: start one.") {
			t.Errorf("10 s after the worker has left:\n%s", body)
		}
		if body := get(t, h, "/workers"); !strings.Contains(body, "No worker has announced itself") {
			t.Error("the page of workers still has one")
		}
		src.mu.Lock()
		src.reports = []model.Report{{Name: "without Partition", Client: "c", Written: tso.At(time.Now()), Worker: model.WorkerReport{
			Takes: map[string][][]byte{"documents": {[]byte("contents"), []byte("recount")}},
		}}}
		src.mu.Unlock()
		time.Sleep(10 * time.Second)
		if body := get(t, h, "/"); strings.Contains(body, "No worker takes") {
			t.Errorf("a worker that only reports takes them:\n%s", body)
		}
		if body := get(t, h, "/workers"); strings.Contains(body, "No worker has announced itself") || !strings.Contains(body, "without Partition") {
			t.Error("the page of workers lacks the one that only reports")
		}
	})
}

// Locks are looked at only while somebody looks at their page.
func TestLocksForThoseWhoLook(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, h *Handler, src *fakeSource) {
		watch(h, pageOverview)
		time.Sleep(time.Minute)
		if n := src.counts()["locks"]; n != 0 {
			t.Errorf("asked %d times for locks that nobody looks at", n)
		}
		get(t, h, "/locks")
		if n := src.counts()["locks"]; n != 1 {
			t.Errorf("asked %d times for a page that was loaded once", n)
		}
		time.Sleep(2 * time.Minute)
		before := src.counts()["locks"]
		if time.Sleep(2 * time.Minute); src.counts()["locks"] != before {
			t.Error("locks are looked at for good")
		}
	})
}

// A source that hangs or fails is shown as such, the others go on, and it is never asked twice at
// once. A walk over tables that hangs is not started again soon, anything else is.
func TestSourceThatDoesNotAnswer(t *testing.T) {
	for _, test := range []struct {
		name, source, shown, why string
		asked                    int // in the first two minutes
	}{
		{"a walk hangs", "pending", "notifications", "context deadline exceeded", 1},
		{"a walk fails", "pending", "notifications", "broken pipe", 12},
		{"a list hangs", "workers", "the list of workers", "context deadline exceeded", 11},
	} {
		t.Run(test.name, func(t *testing.T) {
			src := &fakeSource{hang: test.source}
			if test.why == "broken pipe" {
				src = &fakeSource{fail: test.source}
			}
			inBubbleWith(t, 0, src, func(t *testing.T, h *Handler, src *fakeSource) {
				v := watch(h, pageOverview)
				time.Sleep(2*time.Minute - time.Second)
				if n := src.counts()["oracle"]; n < 30 {
					t.Errorf("the oracle was asked %d times in two minutes", n)
				}
				if n := src.counts()[test.source]; n != test.asked {
					t.Errorf("what does not answer was asked %d times, want %d", n, test.asked)
				}
				if body := get(t, h, "/"); !strings.Contains(body, "The last look at "+test.shown+" failed: "+test.why) {
					t.Errorf("the page does not say so:\n%s", body)
				}
				v.leave()
			})
		})
	}
}

func TestTooManyViewers(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, h *Handler, _ *fakeSource) {
		var all []*viewer
		for range MaxStreams {
			all = append(all, watch(h, pageOverview))
		}
		synctest.Wait()
		late := watch(h, pageOverview)
		<-late.gone
		if late.code != http.StatusServiceUnavailable || late.header.Get("Retry-After") == "" {
			t.Errorf("one too many: %d", late.code)
		}
		all[0].leave()
		<-all[0].gone
		later := watch(h, pageOverview)
		time.Sleep(time.Second)
		if len(later.ids()) == 0 {
			t.Errorf("a free slot was not reused: %d %s", later.code, later.received())
		}
	})
}

// A page that connects again is sent what it has missed, and one that is loaded everything.
func TestPageThatConnectsAgainGetsWhatItMissed(t *testing.T) {
	inBubble(t, time.Minute, func(t *testing.T, h *Handler, _ *fakeSource) {
		watch(h, pageOverview)
		time.Sleep(time.Hour + time.Second)
		points := func(v *viewer) int {
			first, _, _ := strings.Cut(v.received(), "event: main")
			return strings.Count(first, "],[") + 1
		}
		loaded, again, stranger := watch(h, pageOracle), watch(h, pageOracle, "Last-Event-ID", "55"), watch(h, pageOracle, "Last-Event-ID", "99999999")
		synctest.Wait()
		if all := int(History / time.Minute); points(loaded) != all || points(stranger) != all {
			t.Errorf("%d and %d points at first, want %d", points(loaded), points(stranger), all)
		}
		if n := points(again); n != 6 {
			t.Errorf("%d points after a loss of 6", n)
		}
	})
}

// Streams end after an hour, with the client, or with the handler; nothing of them is left.
func TestStreamsEnd(t *testing.T) {
	inBubble(t, time.Minute, func(t *testing.T, h *Handler, _ *fakeSource) {
		old := watch(h, pageOverview)
		if time.Sleep(streamLimit + time.Minute); !isGone(old) {
			t.Error("a stream does not end")
		}
		v := watch(h, pageLocks)
		synctest.Wait()
		if err := h.Close(); err != nil || !isGone(v) {
			t.Errorf("after Close (%v) a stream goes on", err)
		}
		if w := serve(h, local(http.MethodGet, "/", nil)); w.Code != http.StatusServiceUnavailable {
			t.Errorf("after Close: %d", w.Code)
		}
	})
}

func isGone(v *viewer) bool {
	synctest.Wait()
	select {
	case <-v.gone:
		return true
	default:
		return false
	}
}
