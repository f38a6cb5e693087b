package watch_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
	"github.com/gopercolator/percolator/tso"
)

var (
	modelSeeds = flag.Int("watch.seeds", 1, "how many histories the model test makes")
	modelSeed  = flag.Uint64("watch.seed", 1, "the first of them")
)

const modelRetention = 4 * time.Minute

// TestModel compares what a consumer that is killed forty times, or a hundred, has seen with what
// writers know to have committed, while writers die, requests are lost or doubled, transactions
// take long, and collection goes on (I25).
func TestModel(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for i := range *modelSeeds {
		seed := *modelSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) { newModel(t, seed).run() })
		})
	}
}

// attempt is a transaction whose outcome may not be known.
type attempt struct {
	writes map[percolator.Cell]string // "": deleted
	commit tso.Timestamp              // 0: not known to have committed
	failed bool                       // known not to have
}

type simulation struct {
	*testing.T
	*percolatortest.Env
	ctx  context.Context
	rand *rand.Rand

	writers  []*percolator.Client
	attempts map[tso.Timestamp]*attempt // by start timestamp
	order    []tso.Timestamp
	seen     map[tso.Timestamp]map[percolator.Cell]string
	commits  map[tso.Timestamp]tso.Timestamp // by start timestamp, as seen
	newest   map[percolator.Cell]tso.Timestamp
	runs     int
}

func withRetention(cfg *percolator.Config) { cfg.Retention = modelRetention }

func newModel(t *testing.T, seed uint64) *simulation {
	s := fixture.Schema()
	s.Timing = percolator.Timing{RequestLifetime: 5 * time.Second, MetaMaxAge: 5 * time.Second}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Hour)
	t.Cleanup(cancel)
	return &simulation{T: t, Env: percolatortest.New(t, s, percolatortest.Configure(withRetention)), ctx: ctx, rand: rand.New(rand.NewPCG(seed, 0)), attempts: map[tso.Timestamp]*attempt{},
		seen: map[tso.Timestamp]map[percolator.Cell]string{}, commits: map[tso.Timestamp]tso.Timestamp{}, newest: map[percolator.Cell]tso.Timestamp{}}
}

func (m *simulation) run() {
	watched := []watch.Column{column, {Table: "t", Name: "seen"}, {Table: "u"}}
	position := watch.At(now(m, m.ctx, m.Oracle))
	a := admin.New(m.Client)
	hold, err := a.TakeHold(m.ctx, position.Timestamp(), time.Hour, "test")
	fixture.Must(m, err)
	for range 3 {
		m.writers = append(m.writers, m.writer())
	}
	collecting, stop := context.WithCancel(m.ctx)
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		g, err := admin.New(m.NewClient(percolatortest.Configure(withRetention))).NewCollector(admin.CollectorConfig{Interval: 20 * time.Second})
		if err != nil {
			m.Error(err)
			return
		}
		_ = g.Run(collecting)
	}()
	lives := 40
	if fixture.Everything() {
		lives = 100
	}
	for m.runs = range lives {
		for range m.rand.IntN(6) {
			m.write()
		}
		if m.rand.IntN(10) == 0 {
			time.Sleep(time.Minute)
		}
		position = m.consume(watched, position, m.rand.IntN(3), 0)
		if m.rand.IntN(5) == 0 { // the consumer's hold follows
			next, err := a.TakeHold(m.ctx, position.Timestamp(), time.Hour, "test")
			fixture.Must(m, err)
			fixture.Must(m, a.ReleaseHold(m.ctx, hold))
			hold = next
		}
	}
	time.Sleep(time.Minute) // what the dead have locked is free
	last := fixture.Put(m, m.ctx, m.Client, "last", "c", "v")
	m.consume(watched, position, -1, last)
	stop()
	<-collected
	m.compare(last, lives/2)
}

// writer is a client that may die.
func (m *simulation) writer() *percolator.Client {
	c := m.NewClient(percolatortest.Configure(withRetention))
	fate := rand.New(rand.NewPCG(m.rand.Uint64(), 0))
	faults := func(r percolatortest.Request) percolatortest.Action {
		switch n := fate.IntN(150); {
		case r.Table == "percolator_meta" || r.Method == percolatortest.Oracle:
		case n == 0:
			return percolatortest.Crash
		case n < 4:
			return percolatortest.LoseRequest
		case n < 8:
			return percolatortest.LoseAnswer
		case n < 12:
			return percolatortest.Duplicate
		}
		return percolatortest.Pass
	}
	m.FaultsOf(c).Handle(faults)
	m.FaultsOf(c).HandleJournal(faults)
	return c
}

// write makes a transaction.
func (m *simulation) write() {
	i := m.rand.IntN(len(m.writers))
	c := m.writers[i]
	tx, err := c.Begin(m.ctx)
	if err != nil {
		m.writers[i] = m.writer()
		return
	}
	a := &attempt{writes: map[percolator.Cell]string{}}
	m.attempts[tx.StartTimestamp()] = a
	m.order = append(m.order, tx.StartTimestamp())
	for range 1 + m.rand.IntN(4) {
		cell := percolator.Cell{Table: []string{"t", "u"}[m.rand.IntN(2)], Row: key(m.rand.IntN(12)), Column: []string{"c", "seen", "other"}[m.rand.IntN(3)]}
		value := fmt.Sprint(len(m.order), "-", len(a.writes))
		switch m.rand.IntN(8) {
		case 0:
			_, err = tx.GetForUpdate(m.ctx, cell)
			if errors.Is(err, percolator.ErrNotFound) {
				err = nil
			}
			if _, written := a.writes[cell]; !written {
				continue
			}
			value = a.writes[cell]
		case 1:
			value, err = "", tx.Delete(cell)
		case 2:
			fixture.Must(m, tx.Notify(percolator.Cell{Table: "t", Row: cell.Row, Column: "poke"}))
			continue
		default:
			err = tx.Set(cell, []byte(value))
		}
		if err != nil {
			break
		}
		if cell.Table == "u" || cell.Column != "other" {
			a.writes[cell] = value
		}
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(m.ctx, time.Duration(1+m.rand.IntN(40))*time.Second)
		defer cancel()
		a.commit, err = tx.Commit(ctx)
	}
	if err != nil {
		a.commit, a.failed = 0, errors.Is(err, percolator.ErrConflict)
	}
	if m.FaultsOf(c).Crashed() {
		m.writers[i] = m.writer()
	}
}

// consume watches until it has had some batches, or a position, and dies: what it had of the last
// batch is lost with it.
func (m *simulation) consume(columns []watch.Column, from watch.Position, batches int, upTo tso.Timestamp) watch.Position {
	text := from.String()
	memory := 1 + m.rand.IntN(40) // rows
	cfg := watch.Config{Columns: columns, Interval: 400 * time.Millisecond}.Within(memory, time.Second)
	fixture.Must(m, cfg.From.UnmarshalText([]byte(text)))
	c := m.NewClient(percolatortest.Configure(withRetention))
	ctx, cancel := context.WithTimeout(m.ctx, time.Duration(m.rand.IntN(20))*time.Second)
	if upTo > 0 {
		ctx, cancel = context.WithTimeout(m.ctx, time.Hour)
	}
	defer cancel()
	var ascending tso.Timestamp
	for b, err := range watch.Changes(ctx, c, cfg) {
		if err != nil {
			m.Fatalf("run %d: %v", m.runs, err)
		}
		for _, ch := range b.Changes {
			if ch.CommitTS < ascending || ch.CommitTS <= from.Timestamp() {
				m.Errorf("run %d: %s commits at %d, after %d", m.runs, ch.Cell, ch.CommitTS, ascending)
			}
			ascending = ch.CommitTS
			m.note(ch)
		}
		if batches--; batches == 0 {
			break
		}
		if from = b.Position; upTo > 0 && from.Timestamp() >= upTo {
			break
		}
	}
	if n := len(m.FaultsOf(c).Requests()); n > 3000 { // in 20 s, with an Interval
		m.Errorf("run %d: %d requests, with a memory of %d rows: rounds follow each other without rest", m.runs, n, memory)
	}
	m.FaultsOf(c).Crash()
	_ = c.Close()
	return from
}

func (m *simulation) note(ch watch.Change) {
	of := m.seen[ch.StartTS]
	if of == nil {
		of = map[percolator.Cell]string{}
		m.seen[ch.StartTS], m.commits[ch.StartTS] = of, ch.CommitTS
	}
	value := string(ch.Value)
	if had, told := of[ch.Cell]; told && had != value || m.commits[ch.StartTS] != ch.CommitTS || ch.Deleted != (value == "") {
		m.Errorf("%s of %d: %q at %d, and before %q at %d", ch.Cell, ch.StartTS, value, ch.CommitTS, had, m.commits[ch.StartTS])
	}
	of[ch.Cell] = value
	m.newest[ch.Cell] = max(m.newest[ch.Cell], ch.CommitTS)
}

// compare judges what was seen.
func (m *simulation) compare(last tso.Timestamp, atLeast int) {
	known, unknown := 0, 0
	for _, start := range m.order {
		a := m.attempts[start]
		got, told := m.seen[start]
		switch {
		case a.failed && told:
			m.Errorf("transaction %d has failed and was told: %v", start, got)
		case a.commit > 0 && (!maps.Equal(got, a.writes) || told && m.commits[start] != a.commit):
			m.Errorf("transaction %d, committed at %d, has written %v; seen: %v, at %d", start, a.commit, a.writes, got, m.commits[start])
		case told && !maps.Equal(got, a.writes):
			m.Errorf("transaction %d has written %v; seen: %v", start, a.writes, got)
		}
		if a.commit > 0 {
			known++
		} else if !a.failed {
			unknown++
		}
	}
	for start := range m.seen {
		if _, ours := m.attempts[start]; !ours && m.commits[start] != last {
			m.Errorf("nobody knows transaction %d", start)
		}
	}
	s, err := m.Client.Snapshot(m.ctx)
	fixture.Must(m, err)
	for _, table := range []string{"t", "u"} {
		for e, err := range s.Scan(m.ctx, table, percolator.All()) {
			fixture.Must(m, err)
			if (table == "u" || e.Cell.Column != "other") && m.newest[e.Cell] != e.CommitTS {
				m.Errorf("%s was written last at %d, seen last at %d", e.Cell, e.CommitTS, m.newest[e.Cell])
			}
		}
	}
	col, err := admin.New(m.Client).CollectionBounds(m.ctx)
	fixture.Must(m, err)
	m.Logf("%d transactions, %d committed, %d of unknown outcome; watermark %v before the end", len(m.order), known, unknown, last.Sub(col.Watermark))
	if known < atLeast || col.Watermark == 0 {
		m.Errorf("%d transactions have committed, the watermark is %d", known, col.Watermark)
	}
}
