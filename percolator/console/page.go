package console

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// The pages, by the last part of their path.
const (
	pageOverview = "overview"
	pageRow      = "row"

	pageContention = "contention"

	pageLocks     = "locks"
	pageObservers = "observers"
	pageWorkers   = "workers"
	pageOracle    = "oracle"
	pageJournal   = "journal"
	pageStorage   = "storage"
)

// tab is an entry of the bar at the top.
type tab struct{ Name, Title, Path, Key string }

var tabs = []tab{
	{pageOverview, "Overview", "./", "o"},
	{pageRow, "Row", "row", "r"},
	{pageLocks, "Locks", "locks", "l"},
	{pageContention, "Contention", "contention", "x"},
	{pageObservers, "Observers", "observers", "n"},
	{pageWorkers, "Workers", "workers", "w"},
	{pageOracle, "Oracle", "oracle", "t"},
	{pageJournal, "Journal", "journal", "j"},
	{pageStorage, "Storage", "storage", "s"},
}

func titleOf(name string) string {
	for _, t := range tabs {
		if t.Name == name {
			return t.Title
		}
	}
	return "Not found"
}

// page is what a template shows.
type page struct {
	Name         string
	Instance     string
	AllowChanges bool
	ShowValues   bool
	Tables       []string
	Notice       string
	Live         bool // it is kept up to date
	Query        listQuery

	Local    time.Time     // when this was true, by this process's clock
	Now      time.Time     // the same by the oracle's
	Interval time.Duration // between two polls
	*state
	Samples []sample

	Row     *rowPage
	Problem *problem
}

// problem is why a page has nothing else to show.
type problem struct{ Text, Remedy string }

// newPage is a page of a snapshot; nil: nothing is known yet.
func (h *Handler) newPage(name string, s *snapshot, q listQuery) *page {
	p := &page{
		Name: name, Instance: h.cfg.Title, AllowChanges: h.cfg.AllowChanges, ShowValues: h.cfg.ShowValues,
		Local: time.Now(), Now: time.Now(), Interval: h.cfg.PollInterval, state: &state{}, Query: q,
		Tables: ordered.Map(h.c.Schema().Tables, func(t percolator.Table) string { return t.Name }),
	}
	if s != nil {
		p.state, p.Samples, p.Local, p.Now = &s.State, s.Samples, s.At, s.State.now(s.At)
	}
	return p
}

func (p *page) Title() string       { return titleOf(p.Name) }
func (p *page) Tabs() []tab         { return tabs }
func (p *page) Concerns() []concern { return concerns(p.state, p.Now) }

// Looked tells whether every source has answered, so that no concern means that there is none.
func (p *page) Looked() bool {
	return p.Oracle.Known() && p.Workers.Known() && p.Storage.Known() && p.Pending.Known() && p.Letters.Known()
}

func (p *page) Sources() []sourceState { return p.sources() }

// Age is how long ago a timestamp was.
func (p *page) Age(ts tso.Timestamp) string { return formatAge(since(p.Now, ts)) }

// AgeOf is how long ago something was by this process's clock.
func (p *page) AgeOf(t time.Time) string { return formatAge(p.Local.Sub(t)) }

// Waited is how old a notification was when the walk found it: since then it may have been dealt
// with.
func (p *page) Waited(ts tso.Timestamp) string {
	return formatDuration(since(p.now(p.Pending.At), ts))
}

// Left is how long it is until a timestamp.
func (p *page) Left(ts tso.Timestamp) string {
	if d := ts.Time().Sub(p.Now); d > 0 {
		return "in " + formatDuration(d)
	}
	return formatDuration(p.Now.Sub(ts.Time())) + " ago"
}

// figure is a chart with what it says in numbers.
type figure struct {
	chart

	Key, Of string // the number that stands above it: of what
	Lines   []figureLine
}

type figureLine struct {
	line

	Now, Least, Most string
}

// RunbookLink is the address of what to do when the chart looks wrong.
func (f figure) RunbookLink() string { return runbookLink(f.Runbook) }

// Figures are the charts of a page, in the order of the overview; without ids, all of them.
func (p *page) Figures(ids ...string) (list []figure) {
	for _, c := range charts {
		if len(ids) > 0 && !slices.Contains(ids, c.ID) {
			continue
		}
		f := figure{chart: c, Of: cmp.Or(c.Sum, c.Lines[0].Name)}
		key := math.NaN()
		for i, l := range c.Lines {
			l.Unit = cmp.Or(l.Unit, c.Unit)
			s := summarize(p.Samples, l.Series)
			f.Lines = append(f.Lines, figureLine{l, formatUnit(l.Unit, s.Now), formatUnit(l.Unit, s.Least), formatUnit(l.Unit, s.Most)})
			if i == 0 {
				key = s.Now
			} else if c.Sum != "" && !math.IsNaN(s.Now) {
				key = s.Now + orZero(key)
			}
		}
		f.Key = formatUnit(c.Unit, key)
		// These were counted in the first rows of a table.
		if (c.ID == "backlog" || c.ID == "stuck") && len(p.Pending.Value.More) > 0 {
			f.Key = atLeast(f.Key)
			for i := range f.Lines {
				f.Lines[i].Now = atLeast(f.Lines[i].Now)
			}
		}
		list = append(list, f)
	}
	return list
}

func orZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

func atLeast(text string) string {
	if text == "–" {
		return text
	}
	return "≥ " + text
}

// Span is what the samples cover.
func (p *page) Span() string {
	if len(p.Samples) < 2 {
		return "the last minutes"
	}
	return "the last " + formatDuration(p.Samples[len(p.Samples)-1].At.Sub(p.Samples[0].At).Round(time.Second))
}

// observerLine is an observer in all workers together.
type observerLine struct {
	Name string
	model.ObserverReport

	Workers int
}

// Observers sums the counters of observers up, by name.
func (p *page) Observers() []observerLine {
	byName := map[string]*observerLine{}
	for _, w := range p.Workers.Value.Live { // those that have not run yet, too
		for _, name := range w.Observers {
			byName[name] = &observerLine{Name: name}
		}
	}
	for _, r := range p.Processes.Value {
		for name, o := range r.Worker.Observers {
			l := byName[name]
			if l == nil {
				l = &observerLine{Name: name}
				byName[name] = l
			}
			l.Workers, l.ObserverReport = l.Workers+1, plus(l.ObserverReport, o)
		}
	}
	return ordered.Map(slices.Sorted(maps.Keys(byName)), func(name string) observerLine { return *byName[name] })
}

// LeftOut is how many observers the reports have no room for, at least.
func (p *page) LeftOut() (n int) {
	for _, r := range p.Processes.Value {
		n = max(n, r.Worker.LeftOut)
	}
	return n
}

// queued is lines that differ in the parts of a queue alone, and their sum; or one line.
type queued[T any] struct {
	Name  string
	Sum   T
	Parts []T // nil: it is no queue
}

func queues[T any](list []T, name func(T) string, alike func(a, b T) bool, sum func(a, b T) T) (out []queued[T]) {
	for _, parts := range text.Queues(list, name, alike) {
		q := queued[T]{Name: text.Span(text.Shown(name(parts[0])), text.Shown(name(parts[len(parts)-1])), len(parts)), Sum: parts[0]}
		for _, part := range parts[1:] {
			q.Sum, q.Parts = sum(q.Sum, part), parts
		}
		out = append(out, q)
	}
	return out
}

// ObserverQueues are the observers, those of a queue as one.
func (p *page) ObserverQueues() []queued[observerLine] {
	return queues(p.Observers(), func(o observerLine) string { return o.Name }, func(_, _ observerLine) bool { return true },
		func(a, b observerLine) observerLine {
			a.Workers, a.ObserverReport = max(a.Workers, b.Workers), plus(a.ObserverReport, b.ObserverReport)
			return a
		})
}

// WaitingQueues are the columns, those of a queue as one.
func (p *page) WaitingQueues() []queued[waitingColumn] {
	return queues(p.Pending.Value.Columns, func(c waitingColumn) string { return c.Column },
		func(a, b waitingColumn) bool {
			return a.Table == b.Table && a.Weak && b.Weak && p.Takers(a) == p.Takers(b)
		},
		func(a, b waitingColumn) waitingColumn {
			a.Waiting, a.Parked = a.Waiting+b.Waiting, a.Parked+b.Parked
			if b.Oldest != 0 {
				a.Oldest = older(a.Oldest, b.Oldest)
			}
			return a
		})
}

// Stale is what does not answer, and since when what is shown of it is as it was.
func (p *page) Stale() (s stale) {
	for _, source := range p.sources() {
		if source.Failed == nil || source.At.IsZero() {
			continue
		}
		if s.Names = append(s.Names, source.Name); s.Since.IsZero() || source.At.Before(s.Since) {
			s.Since = source.At
		}
	}
	return s
}

type stale struct {
	Names []string
	Since time.Time
}

// Share is a part of a whole in percent.
func (p *page) Share(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 1, 64) + " %"
}

// showPage answers with a page of the newest snapshot.
func (h *Handler) showPage(w http.ResponseWriter, r *http.Request, name string) {
	ctx, cancel := hurry(r)
	defer cancel()
	p := h.newPage(name, h.poll.fresh(ctx, name), readQuery(r.URL.Query()))
	p.Notice, p.Live = notices[r.URL.Query().Get("done")], true
	h.write(w, r, http.StatusOK, p)
}

// fail answers with a page that says what is wrong and what to do.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, status int, text, remedy string) {
	p := h.newPage("", nil, listQuery{})
	p.Problem = &problem{text, remedy}
	h.write(w, r, status, p)
}

// write renders a page before anything of it is sent.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, status int, p *page) {
	var b bytes.Buffer
	if err := h.views.render(&b, p); err != nil {
		h.log.ErrorContext(r.Context(), "console: a page cannot be rendered", "page", p.Name, "error", err)
		http.Error(w, "The page cannot be rendered; the log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the viewer may be gone
}

// Leader is the server of the oracle that leads; nil: none does, as far as is known.
func (p *page) Leader() *oracleServer {
	if i := slices.IndexFunc(p.Oracle.Value, func(s oracleServer) bool { return s.Leading }); i >= 0 {
		return &p.Oracle.Value[i]
	}
	return nil
}

// Ahead is by how much a timestamp is later than the present: how much of the oracle's window is
// left.
func (p *page) Ahead(ts tso.Timestamp) string { return formatDuration(ts.Time().Sub(p.Now)) }

// Clients are the clients that report, and this process's.
func (p *page) Clients() []client { return p.clients() }

// MostClients is how many clients can report.
func (p *page) MostClients() int { return model.MaxReports - model.MaxWorkers }

// Failures is how often the workers of a client have failed.
func (p *page) Failures(c client) string { return grouped(c.Worker.Errors + c.Worker.Panics) }

// LiveWorkers are the workers that percolator workers ls lists. There are limits to the observers
// that a worker names where it announces itself, and where it reports.
func (p *page) LiveWorkers() []model.WorkerInfo {
	return ordered.Map(p.workers(), func(w model.WorkerInfo) model.WorkerInfo {
		for _, r := range p.Processes.Value {
			if r.Name == w.Name && len(r.Worker.Observers) > len(w.Observers) {
				w.Observers = slices.Sorted(maps.Keys(r.Worker.Observers))
			}
		}
		return w
	})
}

// IsOwn tells whether a client is this process's.
func (p *page) IsOwn(c client) bool { return c.Client == p.Own }

// phase is a step of collection.
type phase struct {
	Name, Text string
	Now        bool
}

// Phases are the steps of a cycle of collection, in order.
func (p *page) Phases() []phase {
	at := p.Storage.Value.Phase
	return []phase{
		{"drain", "waits for requests that are older than the safepoint", at == model.CollectionDrain},
		{"resolve", "resolves every older lock", at == model.CollectionResolve},
		{"erase", "removes what no reader can see any more", at == model.CollectionErase},
		{"done", "until the next cycle", at == model.CollectionDone},
	}
}

// runbook is where an operator reads what to do. Anchors are those of its headings.
const runbook = "https://github.com/gopercolator/percolator/blob/main/docs/RUNBOOK.md"

// runbookLink is the address of a section; "" for none.
func runbookLink(anchor string) string {
	if anchor == "" {
		return ""
	}
	return runbook + "#" + anchor
}
