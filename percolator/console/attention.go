package console

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/tso"
)

// concern is something that an operator should look at, and what to do about it.
type concern struct {
	health.Finding

	Page string // where to see more
}

// Urgent tells that data does not move, or cannot be trusted.
func (c concern) Urgent() bool { return c.Level == health.Failed }

// Text is what was seen, as a sentence.
func (c concern) Text() string {
	first, size := utf8.DecodeRuneInString(c.Saw)
	return string(unicode.ToUpper(first)) + c.Saw[size:] + "."
}

// RunbookLink is the address of what to do; "" for none.
func (c concern) RunbookLink() string { return runbookLink(c.Runbook) }

// concerns lists what is wrong, the urgent first.
func concerns(st *state, now time.Time) (list []concern) {
	found := func(page string, all ...[]health.Finding) {
		for _, f := range slices.Concat(all...) {
			if f.Level == health.Warning || f.Level == health.Failed {
				list = append(list, concern{f, page})
			}
		}
	}
	walked := st.now(st.Pending.At) // most of what the walk found is gone since
	found(pageOracle, health.Oracle(ordered.Map(st.Oracle.Value, func(s oracleServer) health.OracleServer { return s.OracleServer })))
	found(pageObservers, st.Pending.Value.waiting(walked, st.Processes.Value))
	found(pageLocks, st.Pending.Value.stranded(walked))
	found(pageObservers, letterFindings(st.Letters.Value, st.now(st.Letters.At)), st.untaken())
	found(pageWorkers, health.Agreement(st.workers()), health.Overdue(st.Processes.Value), health.Overloaded(st.Processes.Value))
	if st.Storage.Value.announced != 0 { // a console may stand beside an instance that is new
		found(pageStorage, st.Storage.Value.health(tso.At(now)).Findings())
	}
	list = append(list, sourceConcerns(st)...)
	slices.SortStableFunc(list, func(a, b concern) int { return cmp.Compare(urgency(b), urgency(a)) })
	return list
}

func urgency(c concern) int {
	if c.Urgent() {
		return 1
	}
	return 0
}

func letterFindings(counts []exportqueue.DeadLetterCount, now time.Time) []health.Finding {
	return ordered.Map(counts, func(c exportqueue.DeadLetterCount) health.Finding {
		return health.Letters(c.Table, c.Queue, c.Letters, c.More, since(now, c.Oldest))
	})
}

// sourceConcerns lists the sources that did not answer, so that what the page shows of them is old.
func sourceConcerns(st *state) (list []concern) {
	for _, s := range st.sources() {
		if s.Failed != nil {
			list = append(list, concern{Finding: health.Finding{Level: health.Warning, Saw: "the last look at " + s.Name + " failed: " + firstLine(s.Failed), Advice: "What is shown of it is older."}})
		}
	}
	return list
}

// sourceState is the state of one source of the poll.
type sourceState struct {
	Name   string
	At     time.Time
	Failed error
}

func (st *state) sources() []sourceState {
	return []sourceState{
		{"the oracle", st.Oracle.At, st.Oracle.Failed},
		{"the reports of processes", st.Processes.At, st.Processes.Failed},
		{"the list of workers", st.Workers.At, st.Workers.Failed},
		{"collection", st.Storage.At, st.Storage.Failed},
		{"notifications", st.Pending.At, st.Pending.Failed},
		{"dead letters", st.Letters.At, st.Letters.Failed},
		{"locks", st.Locks.At, st.Locks.Failed},
		{"the journal", st.Journal.At, st.Journal.Failed},
	}
}

// firstLine is the beginning of an error's text.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	const most = 300
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "…"
	}
	return strings.TrimSuffix(line, ".")
}
