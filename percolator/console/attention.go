package console

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// concern is something that an operator should look at, and what to do about it.
type concern struct {
	Urgent bool // data does not move, or cannot be trusted
	Text   string
	Remedy string
	Page   string // where to see more

	Runbook string // the anchor of what to do; "": none
}

// RunbookLink is the address of what to do; "" for none.
func (c concern) RunbookLink() string { return runbookLink(c.Runbook) }

// Ages beyond which something needs attention.
const (
	lateNotification = time.Minute
	lateCollection   = 3 * time.Hour
)

// concerns lists what is wrong, the urgent first.
func concerns(st *state, now time.Time) []concern {
	list := slices.Concat(oracleConcerns(st), pendingConcerns(st, st.now(st.Pending.At)), letterConcerns(st, st.now(st.Letters.At)), workerConcerns(st), storageConcerns(st, now), sourceConcerns(st))
	urgent := slices.DeleteFunc(slices.Clone(list), func(c concern) bool { return !c.Urgent })
	return append(urgent, slices.DeleteFunc(list, func(c concern) bool { return c.Urgent })...)
}

func oracleConcerns(st *state) (list []concern) {
	if !st.Oracle.Known() || len(st.Oracle.Value) == 0 {
		return nil
	}
	leads := false
	for _, s := range st.Oracle.Value {
		leads = leads || s.Leading
		if s.Failed != nil {
			list = append(list, concern{false, "Server " + s.Address + " of the oracle does not answer.", "Is it running, and reachable from here?", pageOracle, "alert-percolator-oracle-no-spare"})
		} else if !s.Ready && !s.Leading {
			list = append(list, concern{false, "Server " + s.Address + " of the oracle is not ready: " + s.Reason + ".", "Its log says more.", pageOracle, "alert-percolator-oracle-no-spare"})
		}
	}
	if !leads {
		list = append(list, concern{true, "No server of the oracle leads: no transaction can begin or commit.", "percolator tso status", pageOracle, "alert-percolator-oracle-without-leader"})
	}
	return list
}

// pendingConcerns judges ages as of the walk that found the notifications: most of them are gone
// since.
func pendingConcerns(st *state, now time.Time) (list []concern) {
	p := st.Pending.Value
	if age := since(now, p.Oldest); age > lateNotification {
		remedy := "Look for an observer that fails or a worker that is missing; add workers if all of them are busy."
		list = append(list, concern{false, "A notification has been waiting for " + formatDuration(age) + ".", remedy, pageObservers, "alert-percolator-notification-backlog"})
	}
	if n := p.ParkedCells; n > 0 {
		verb := "are"
		if n == 1 {
			verb = "is"
		}
		list = append(list, concern{false, fmt.Sprintf("%s %s parked: the observer failed too often.", plural(n, "cell", "cells"), verb),
			"Read the reason, remove the cause, retry.", pageObservers, "alert-percolator-parked-rows"})
	}
	if n, oldest := p.expired(now); n > 0 {
		list = append(list, concern{false, fmt.Sprintf("%s older than the time to live, the oldest %s.", plural(n, "lock is", "locks are"), formatDuration(oldest)),
			"The next reader of the cell resolves it, and so do the client that left it and workers; percolator locks resolve does it now.", pageLocks, "alert-percolator-stuck-locks"})
	}
	if n := len(p.Corrupt); n > 0 {
		list = append(list, concern{true, plural(n, "notification or lock", "notifications or locks") + " cannot be decoded.",
			"Something else has written to the tables. Look at the rows before anything is changed.", pageObservers, "something-is-corrupt"})
	}
	return list
}

func letterConcerns(st *state, now time.Time) (list []concern) {
	for _, c := range st.Letters.Value {
		text := fmt.Sprintf("The receiver of the queue %s has refused %s for good, the oldest %s ago.", c.Queue, refused(c), formatDuration(since(now, c.Oldest)))
		list = append(list, concern{false, text, "Read the reasons, remove the cause, retry.", pageObservers, "dead-letters"})
	}
	return list
}

func workerConcerns(st *state) (list []concern) {
	if columns := st.untaken(); len(columns) > 0 {
		remedy := "Their notifications wait: start a worker with their observers."
		if len(st.workers()) == 0 {
			remedy = "No worker runs: start one."
		}
		list = append(list, concern{false, "No worker takes " + nameColumns(columns) + ".", remedy, pageObservers, "alert-percolator-no-worker"})
	}
	if n := st.overdue(); n > 0 {
		verb := "have"
		if n == 1 {
			verb = "has"
		}
		list = append(list, concern{false, fmt.Sprintf("%s %s not returned after the timeout: the observer ignores its context.", plural(int(n), "run", "runs"), verb),
			"Each holds a slot of its worker until it returns. The worker's log names the observer: have it return when its context ends; restart the process to end the run.", pageObservers, "observers-stand-still"})
	}
	versions := map[string]bool{}
	for _, version := range st.Running() {
		versions[version] = true
	}
	if len(versions) > 1 {
		list = append(list, concern{false, "Workers run different versions.", "Fine during a roll-out; finish it otherwise.", pageWorkers, ""})
	}
	return list
}

// namedColumns is how many columns a concern names.
const namedColumns = 4

func nameColumns(columns []waitingColumn) string {
	var names []string
	for _, c := range columns[:min(len(columns), namedColumns)] {
		names = append(names, "the column "+shown(c.Column)+" of "+c.Table)
	}
	text := strings.Join(names, ", ")
	if more := len(columns) - namedColumns; more > 0 {
		text += " and " + plural(more, "other column", "other columns")
	}
	return text
}

func storageConcerns(st *state, now time.Time) (list []concern) {
	s := st.Storage.Value
	if s.Safepoint != 0 && since(now, s.Safepoint) > lateCollection {
		text := "Versions older than " + formatDuration(since(now, s.Safepoint)) + " have not been collected."
		list = append(list, concern{false, text, "A hold may keep them, or no worker collects.", pageStorage, "alert-percolator-collection-lag"})
	}
	if s.Corrupt > 0 {
		list = append(list, concern{true, "Collection met " + plural(int(s.Corrupt), "cell", "cells") + " that cannot be decoded.", "They were left as they are. The log of the collector names them.", pageStorage, "something-is-corrupt"})
	}
	return list
}

// sourceConcerns lists the sources that did not answer, so that what the page shows of them is old.
func sourceConcerns(st *state) (list []concern) {
	for _, s := range st.sources() {
		if s.Failed != nil {
			list = append(list, concern{false, "The last look at " + s.Name + " failed: " + firstLine(s.Failed) + ".", "What is shown of it is older.", "", ""})
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
