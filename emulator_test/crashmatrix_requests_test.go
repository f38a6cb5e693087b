package emulator_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// requestID names a request of the transaction in any run of its scenario: what it does, where, and
// the how manieth of its sort it is. Prewrites travel in parallel, so its number among all requests
// would not do.
type requestID struct {
	role  string
	where string // the name of the row in the scenario; "" for the oracle
	nth   int
}

func (id requestID) String() string {
	if id.where == "" {
		return fmt.Sprintf("%s %d", id.role, id.nth)
	}
	return fmt.Sprintf("%s %s %d", id.role, id.where, id.nth)
}

// roleOf tells the requests of the protocol apart. A roll forward looks like a commit, and is told
// from it by its row.
func roleOf(r percolatortest.Request) string {
	if r.Table == journalTable {
		return roleInJournal(r)
	}
	switch m := r.Message.(type) {
	case *btpb.CheckAndMutateRowRequest:
		switch {
		case fixture.Sets(m.FalseMutations, "lock"):
			return "prewrite"
		case fixture.Sets(m.FalseMutations, "write"):
			return "roll back"
		case fixture.Sets(m.TrueMutations, "write"):
			return "commit"
		case fixture.Sets(m.TrueMutations, "lock"):
			return "refresh"
		case r.Erases("lock"):
			return "erase conditionally"
		}
	case *btpb.MutateRowsRequest:
		switch {
		case r.Sets("write"):
			return "phase two"
		case r.Sets("notify"):
			return "notify weakly"
		case r.Erases("lock"):
			return "erase"
		}
	case *btpb.ReadRowsRequest:
		return "read"
	case nil:
		return "timestamp"
	}
	return r.Method
}

const (
	journalTable   = "percolator_journal"
	roleAppend     = "append"
	roleOpenStream = "open a stream"
)

// roleInJournal tells the requests apart that a commit waits for. The others follow the time.
func roleInJournal(r percolatortest.Request) string {
	m, ok := r.Message.(*btpb.MutateRowsRequest)
	if !ok || len(m.Entries) != 1 {
		return "journal"
	}
	for _, mut := range m.Entries[0].Mutations {
		switch string(mut.GetSetCell().GetColumnQualifier()) {
		case "session":
			return roleOpenStream
		case "batch":
			return roleAppend
		}
	}
	return "journal"
}

// census numbers the requests of one run as they come. It is used by one goroutine at a time.
type census struct {
	rows map[string]string // names of rows, by table/row
	seen map[requestID]int // with nth 0
}

func newCensus(rows map[string]string) *census {
	return &census{rows: rows, seen: map[requestID]int{}}
}

func (c *census) next(r percolatortest.Request) requestID {
	id := requestID{role: roleOf(r), where: c.rows[r.Table+"/"+r.Row]}
	if id.where == "" && r.Table != "" {
		id.where = r.Table
	}
	c.seen[id]++
	id.nth = c.seen[id]
	return id
}

// crashPoint is a request and its place relative to the others.
type crashPoint struct {
	id                requestID
	begin             bool // it asks for the start timestamp
	oracle, prewrite  bool
	before, at, after bool // the commit point
	last              bool // of those before the commit point
	final             bool // of all
	journal           bool // it travels while the prewrites do
	locked            bool // when the rows are prewritten one by one, a prewrite comes before it
}

// pick chooses by the place relative to the commit point.
func (s crashPoint) pick(before, at, after expectation) expectation {
	switch {
	case s.before:
		return before
	case s.at:
		return at
	}
	return after
}

// recordScenario runs a scenario without faults, with prewrites in parallel and one by one, and
// returns its requests in the order of the latter. What is not sent each time – the client
// re-reads the meta row now and then – does not belong to the transaction.
func recordScenario(t *testing.T, m *matrixEnv, s *scenario) []crashPoint {
	t.Helper()
	var order []requestID
	sent := map[requestID]int{}
	const each = 2
	for _, sequential := range []bool{false, true} {
		for range each {
			order = recordOnce(t, m, s, sequential)
			for _, id := range order {
				sent[id]++
			}
		}
	}
	for id, n := range sent {
		if n != 2*each && id.where != "percolator_meta" {
			t.Fatalf("%s: %s is sent in some runs without faults and not in others", s.name, id)
		}
	}
	order = slices.DeleteFunc(order, func(id requestID) bool { return sent[id] != 2*each })
	points := placePoints(order)
	if !slices.ContainsFunc(points, func(s crashPoint) bool { return s.at }) != s.doomed {
		t.Fatalf("%s: requests %v", s.name, slices.Collect(maps.Keys(sent)))
	}
	return points
}

func recordOnce(t *testing.T, m *matrixEnv, s *scenario, sequential bool) []requestID {
	t.Helper()
	x := m.newRun(t, s, sequential)
	defer x.end()
	result := x.transact(x.own)
	x.finished = &result
	fixture.Must(t, x.client.Flush(x.ctx))
	if s.doomed != (result.err != nil) {
		t.Fatalf("%s without faults: %v", s.name, result.err)
	}
	count := newCensus(x.rows)
	var order []requestID
	for _, r := range x.faults.Requests() {
		order = append(order, count.next(r))
	}
	if !s.doomed {
		order = withJournal(order, count, x.faults.JournalRequests())
	}
	x.check(expectation{applied: !s.doomed, result: resultAny})
	return order
}

// withJournal adds the requests to the journal that the commit waits for, where it does: before it
// asks for its timestamp.
func withJournal(order []requestID, count *census, sent []percolatortest.Request) []requestID {
	commit := slices.IndexFunc(order, func(id requestID) bool { return id.role == "commit" && id.where == "P" })
	at := commit
	for at > 0 && order[at].role != "timestamp" {
		at--
	}
	for _, r := range sent {
		if id := count.next(r); id.role == roleAppend || id.role == roleOpenStream {
			order = slices.Insert(order, at, id)
			at++
		}
	}
	return order
}

// placePoints finds the commit point, and what comes before and after it.
func placePoints(order []requestID) []crashPoint {
	commit := slices.IndexFunc(order, func(id requestID) bool { return id.role == "commit" && id.where == "P" })
	if commit < 0 {
		commit = len(order) // it never comes
	}
	first := slices.IndexFunc(order, func(id requestID) bool { return id.role == "prewrite" })
	points := make([]crashPoint, len(order))
	for i, id := range order {
		points[i] = crashPoint{
			id: id, begin: i == 0, oracle: id.role == "timestamp", prewrite: id.role == "prewrite",
			before: i < commit, at: i == commit, after: i > commit, last: i == commit-1, final: i == len(order)-1, locked: i > first,
			journal: id.where == journalTable,
		}
	}
	return points
}

// watch calls decide for every request of the run's client, with the request's name. It replaces
// the handler.
func (x *crashRun) watch(decide func(requestID) percolatortest.Action) {
	count := newCensus(x.rows)
	x.faults.Handle(func(r percolatortest.Request) percolatortest.Action { return decide(count.next(r)) })
	x.faults.HandleJournal(func(r percolatortest.Request) percolatortest.Action {
		if role := roleOf(r); role != roleAppend && role != roleOpenStream {
			return percolatortest.Pass
		}
		return decide(count.next(r))
	})
}

// boundedContext ends with the test, and after limit.
func boundedContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	t.Cleanup(cancel)
	return ctx
}
