//go:build unix

package emulator_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// The cells of the crash tests: a primary and two secondaries in two tables; P and S2 are observed. No row has two columns (see the
// package's documentation).

var crashSchema = &percolator.Schema{Tables: []percolator.Table{
	{Name: "left", Observed: []string{"seen"}},
	{Name: "right", Observed: []string{"seen"}},
}}

var crashCells = []string{"P", "S1", "S2"}

func crashCell(prefix, name string) percolator.Cell {
	switch name {
	case "S1":
		return percolator.Cell{Table: "left", Row: prefix + name, Column: "plain"}
	case "S2":
		return percolator.Cell{Table: "right", Row: prefix + name, Column: "seen"}
	}
	return percolator.Cell{Table: "left", Row: prefix + name, Column: "seen"}
}

// crashRow is how reports name a row. table is its full name.
func crashRow(table string, row []byte) string {
	return table[strings.LastIndexByte(table, '/')+1:] + "/" + string(row)
}

// crashVersion is a committed value.
type crashVersion struct {
	ts    tso.Timestamp
	value string
}

// rawVersions is all that is stored of one cell.
type rawVersions struct {
	locks   []tso.Timestamp
	records map[tso.Timestamp]tso.Timestamp // commit to start; without rollback markers
	markers []tso.Timestamp
	data    map[tso.Timestamp]string
	notify  map[tso.Timestamp]bool
}

// raw reads what is stored of a cell.
func (v *victim) raw(name string) *rawVersions {
	v.Helper()
	out := &rawVersions{records: map[tso.Timestamp]tso.Timestamp{}, data: map[tso.Timestamp]string{}, notify: map[tso.Timestamp]bool{}}
	c := crashCell(v.prefix, name)
	row, err := v.field.env.Store().Open(c.Table).ReadRow(v.ctx, c.Row)
	if err != nil {
		v.Fatal(err)
	}
	for family, items := range row {
		for _, it := range items {
			out.add(family, it)
		}
	}
	return out
}

func (r *rawVersions) add(family string, it bigtable.ReadItem) {
	ts := tso.Timestamp(it.Timestamp / 1000)
	switch family {
	case "lock":
		r.locks = append(r.locks, ts)
	case "write":
		start := tso.Timestamp(binary.BigEndian.Uint64(it.Value))
		if it.Value[8] == 'R' {
			r.markers = append(r.markers, start)
		} else {
			r.records[ts] = start
		}
	case "data":
		r.data[ts] = string(it.Value)
	case "notify":
		r.notify[ts] = true
	}
}

// look finds out from the primary's raw cells whether the transaction has committed.
func (v *victim) look() {
	v.Helper()
	for commit, start := range v.raw("P").records {
		if start == v.start && !v.committed {
			v.committed, v.commitTS = true, commit
			v.remember(crashVersion{commit, "new"})
		}
	}
}

// locks counts the transaction's locks.
func (v *victim) locks() (n int) {
	v.Helper()
	for _, name := range crashCells {
		for _, start := range v.raw(name).locks {
			if start == v.start {
				n++
			}
		}
	}
	return n
}

// undecided: neither a record nor a marker of the transaction is on its primary.
func (v *victim) undecided() bool {
	v.Helper()
	p := v.raw("P")
	for _, start := range p.records {
		if start == v.start {
			return false
		}
	}
	return !slices.Contains(p.markers, v.start)
}

// remember adds a commit to all three cells.
func (v *victim) remember(c crashVersion) { v.history = append(v.history, c) }

// at is what a snapshot must see in each cell: all transactions of these tests write all three.
func (v *victim) at(ts tso.Timestamp) string {
	var newest crashVersion
	for _, c := range v.history {
		if c.ts <= ts && c.ts > newest.ts {
			newest = c
		}
	}
	return newest.value
}

// audit compares what is stored with the commits that are known.
func (v *victim) audit() (faults []string) {
	v.Helper()
	for _, name := range crashCells {
		raw := v.raw(name)
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf("%s (started at %d, committed at %d): ", name, v.start, v.commitTS)+fmt.Sprintf(format, args...))
		}
		observed := crashCell(v.prefix, name).Column == "seen"
		for _, c := range v.history {
			start, found := raw.records[c.ts]
			if !found || raw.data[start] != c.value {
				fault("the commit at %d of %q has left a record of %d with data %q", c.ts, c.value, start, raw.data[start])
			}
			if raw.notify[c.ts] != observed {
				fault("the commit at %d notifies: %v", c.ts, raw.notify[c.ts])
			}
		}
		if n := len(v.history); len(raw.records) != n || len(raw.data) != n || observed && len(raw.notify) != n || !observed && len(raw.notify) != 0 {
			fault("%d records, %d versions of data and %d notifications of %d commits", len(raw.records), len(raw.data), len(raw.notify), n)
		}
		for _, start := range raw.markers {
			if start == v.start && v.committed || start != v.start && !slices.Contains(v.refused, start) {
				fault("a rollback marker of %d", start)
			}
		}
		if len(raw.locks) != 0 {
			fault("locks of %v", raw.locks)
		}
	}
	return faults
}

// settle has a worker clean up and audits. What a process sent before it was killed may still be on its way.
func (v *victim) settle() {
	v.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		v.resolveAll()
		faults := v.audit()
		if len(faults) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for _, fault := range faults {
				v.Error(fault)
			}
			return
		}
		time.Sleep(time.Millisecond)
	}
}
