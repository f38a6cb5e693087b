package emulator_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// storedRecord is a cell of the write family.
type storedRecord struct {
	ts, start tso.Timestamp
	kind      byte
}

// storedVersions is all that is stored of one cell.
type storedVersions struct {
	locks  []tso.Timestamp
	writes []storedRecord
	data   map[tso.Timestamp]string
	notify map[tso.Timestamp]bool
}

// stored reads the raw cells of the run, by name. Nothing is resolved, nothing is filtered.
func (x *crashRun) stored() map[string]*storedVersions {
	x.Helper()
	all := map[string]*storedVersions{}
	for _, table := range []string{"left", "right"} {
		err := x.env.Store().Open(table).ReadRows(x.ctx, bigtable.PrefixRange(x.prefix), func(r bigtable.Row) bool {
			name := x.rows[table+"/"+r.Key()]
			all[name] = x.storedIn(name, r)
			return true
		})
		fixture.Must(x, err)
	}
	return all
}

func (x *crashRun) storedIn(name string, r bigtable.Row) *storedVersions {
	v := &storedVersions{data: map[tso.Timestamp]string{}, notify: map[tso.Timestamp]bool{}}
	for family, items := range r {
		for _, it := range items {
			if column := strings.TrimPrefix(it.Column, family+":"); column != x.cell(name).Column {
				x.Errorf("%s has a cell in column %q", name, column)
			}
			v.add(family, it)
		}
	}
	return v
}

func (v *storedVersions) add(family string, it bigtable.ReadItem) {
	ts := tso.Timestamp(it.Timestamp / 1000)
	switch family {
	case "lock":
		v.locks = append(v.locks, ts)
	case "write":
		v.writes = append(v.writes, storedRecord{ts, tso.Timestamp(binary.BigEndian.Uint64(it.Value)), it.Value[8]})
	case "data":
		v.data[ts] = string(it.Value)
	case "notify":
		v.notify[ts] = true
	}
}

// ownLocks counts the transaction's locks.
func (x *crashRun) ownLocks() (n int) {
	x.Helper()
	for _, v := range x.stored() {
		for _, start := range v.locks {
			if start == x.startTS() {
				n++
			}
		}
	}
	return n
}

// notifications returns the notify cells by name.
func (x *crashRun) notifications() map[string]map[tso.Timestamp]bool {
	x.Helper()
	all := map[string]map[tso.Timestamp]bool{}
	for name, v := range x.stored() {
		all[name] = v.notify
	}
	return all
}

// notifiedCells are those whose observers the transaction calls.
func (x *crashRun) notifiedCells() (names []string) {
	for _, name := range []string{"P", "S1", "S2"} {
		if x.cell(name).Column == "seen" {
			names = append(names, name)
		}
	}
	if x.scenario.pokes {
		names = append(names, "W")
	}
	return names
}

// observedWrites is how many commits to a cell have notified.
func (x *crashRun) observedWrites(name string) int {
	if x.cell(name).Column != "seen" {
		return 0
	}
	return len(x.history[name])
}

// primaryRecord is what the primary's raw cells say about the transaction.
func (x *crashRun) primaryRecord() (r storedRecord, found bool) {
	x.Helper()
	p := x.cell("P")
	row, err := x.env.Store().Open(p.Table).ReadRow(x.ctx, p.Row)
	fixture.Must(x, err)
	for _, w := range x.storedIn("P", row).writes {
		if w.start == x.startTS() {
			return w, true
		}
	}
	return storedRecord{}, false
}

// undecided tells whether the primary has neither a record nor a rollback marker of the
// transaction.
func (x *crashRun) undecided() bool {
	_, found := x.primaryRecord()
	return !found
}

// look finds out whether the commit point has been passed, from the raw cells alone.
func (x *crashRun) look() {
	x.Helper()
	r, found := x.primaryRecord()
	applied := found && r.kind != 'R'
	switch {
	case x.committed && (!applied || r.ts != x.commitTS):
		x.Errorf("the commit at %d is no longer there", x.commitTS)
	case applied && !x.committed:
		x.committed, x.commitTS = true, r.ts
		for name, value := range x.writes() {
			x.remember(name, cellVersion{r.ts, value})
		}
	}
}

// check looks at everything at the end.
func (x *crashRun) check(want expectation) {
	x.Helper()
	x.look()
	if x.committed != want.applied {
		x.Errorf("the transaction has committed: %v, want %v; its client was told %v", x.committed, want.applied, x.finished.err)
	}
	x.checkResult(want.result)
	if x.lives() && !x.finished.mayBeCutOff() {
		if n := x.ownLocks(); n != 0 {
			x.Errorf("a client that lives and was told %v has left %d locks", x.finished.err, n)
		}
	}
	x.expire()
	x.resolveAndAudit()
	if x.read != nil {
		x.wantAt(x.startTS(), x.read)
	}
	x.readAll()
	for ts, seen := range x.seen {
		if now := x.readAll(percolator.AsOfTimestamp(ts)); !maps.Equal(now, seen) {
			x.Errorf("at %d somebody has read %v, and now it is %v; committed at %d", ts, seen, now, x.commitTS)
		}
	}
	if x.committed {
		x.readAll(percolator.AsOfTimestamp(x.commitTS - 1))
		if newest := x.history["P"]; newest[len(newest)-1].ts != x.commitTS { // others have written since
			x.readAll(percolator.AsOfTimestamp(x.commitTS))
		}
	}
}

// readAll reads the cells from one snapshot. The clock stands still: nobody waits.
func (x *crashRun) readAll(opts ...percolator.ReadOption) map[string]string {
	x.Helper()
	s, err := x.other.Snapshot(x.ctx, opts...)
	fixture.Must(x, err)
	got, err := x.getAll(x.ctx, s)
	fixture.Must(x, err)
	x.wantAt(s.StartTimestamp(), got)
	return got
}

// checkResult compares what the client was told, with what is expected and with the truth.
func (x *crashRun) checkResult(want expectedResult) {
	x.Helper()
	err := x.finished.err
	unknown := errors.Is(err, percolator.ErrOutcomeUnknown)
	conflict := errors.Is(err, percolator.ErrConflict) || errors.Is(err, errAgain)
	ok := true
	switch want {
	case resultSuccess:
		ok = err == nil
	case resultFailure:
		ok = err != nil && !unknown
	case resultConflict:
		ok = conflict && !unknown
	case resultUnknown:
		ok = unknown && !conflict && errors.Is(err, context.Canceled) && x.finished.attempts == 1
	}
	if !ok {
		x.Errorf("the client was told %v, want %s", err, [...]string{"anything", "success", "a definite failure", "a conflict", "an unknown outcome"}[want])
	}
	switch {
	case err == nil && (!x.committed || x.finished.ts != x.commitTS):
		x.Errorf("the client was told of a commit at %d; committed: %v, at %d", x.finished.ts, x.committed, x.commitTS)
	case err != nil && !unknown && x.committed:
		x.Errorf("the client was told of an abort, %v, and the transaction has committed at %d", err, x.commitTS)
	}
}

// resolveAndAudit has a worker clean up, after which the stored cells must be those of the commits
// that are known, and nothing else. Requests that may still be on their way get a little time.
func (x *crashRun) resolveAndAudit() {
	x.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		x.resolveAll()
		findings := x.audit()
		if len(findings) == 0 {
			return
		}
		if !x.loose && x.victim == nil || time.Now().After(deadline) {
			for _, finding := range findings {
				x.Error(finding)
			}
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// audit compares the stored cells with the history.
func (x *crashRun) audit() (findings []string) {
	x.Helper()
	all := x.stored()
	for _, name := range []string{"P", "S1", "S2", "W", "X"} {
		v := all[name]
		if v == nil {
			v = &storedVersions{}
		}
		for _, finding := range x.auditCell(name, v) {
			findings = append(findings, fmt.Sprintf("%s (started at %d, committed at %d): %s", name, x.startTS(), x.commitTS, finding))
		}
	}
	return findings
}

func (x *crashRun) auditCell(name string, v *storedVersions) (findings []string) {
	finding := func(format string, args ...any) { findings = append(findings, fmt.Sprintf(format, args...)) }
	commits := map[tso.Timestamp]string{}
	for _, c := range x.history[name] {
		commits[c.ts] = c.value
	}
	for _, start := range v.locks {
		finding("a lock of %d", start)
	}
	starts, records, referenced := map[tso.Timestamp]bool{}, 0, 0
	for _, w := range v.writes {
		if starts[w.start] {
			finding("two records of %d", w.start)
		}
		starts[w.start] = true
		if w.kind == 'R' {
			aborted := w.start == x.startTS() && !x.committed || x.foreign[w.start]
			if !aborted || w.ts != w.start {
				finding("a rollback marker of %d at %d", w.start, w.ts)
			}
			continue
		}
		records++
		value, known := commits[w.ts]
		data, put := v.data[w.start]
		switch {
		case !known || w.start >= w.ts:
			finding("a record of %d at %d that nobody has committed", w.start, w.ts)
		case w.kind == 'P' && (!put || data != value || value == ""), w.kind == 'D' && (put || value != ""), w.kind != 'P' && w.kind != 'D':
			finding("a record %q of %d at %d with data %q, want %q", w.kind, w.start, w.ts, data, value)
		case put:
			referenced++
		}
		if x.cell(name).Column == "seen" && !v.notify[w.ts] {
			finding("no notification of the commit at %d", w.ts)
		}
	}
	if records != len(commits) {
		finding("%d records of %d commits", records, len(commits))
	}
	if len(v.data) != referenced {
		finding("%d versions of data of which the records name %d", len(v.data), referenced)
	}
	return append(findings, x.auditNotifications(name, v)...)
}

// auditNotifications: only commits notify, except weakly.
func (x *crashRun) auditNotifications(name string, v *storedVersions) (findings []string) {
	if name == "W" {
		if x.scenario.pokes && x.committed && !v.notify[x.commitTS] {
			findings = append(findings, "no weak notification")
		}
		return findings
	}
	if len(v.notify) != x.observedWrites(name) {
		findings = append(findings, fmt.Sprintf("notified at %v, by %d commits", v.notify, x.observedWrites(name)))
	}
	return findings
}
