package audit

import (
	"encoding/json"
	"strings"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// auditedIndex gathers the cells that an index covers, and its entries, with all their versions:
// which snapshot they are compared at is only known when all locks have been seen.
type auditedIndex struct {
	table string
	model.Index
	cells, entries []*auditedCell
}

// collectIndexed keeps cells that belong to an index.
func (a *auditor) collectIndexed(t *auditedTable, cells map[string]*auditedCell) {
	for column, indexes := range t.indexed {
		if c := cells[column]; c != nil && !c.broken {
			for _, ix := range indexes {
				ix.cells = append(ix.cells, c)
			}
		}
	}
	if t.entries != nil {
		for _, c := range cells {
			if !c.broken {
				t.entries.entries = append(t.entries.entries, c)
			}
		}
	}
}

// value is what a snapshot at ts sees. ok is false where there is nothing.
func (c *auditedCell) value(ts tso.Timestamp) (v string, ok bool) {
	r, found := c.newest(ts)
	if !found || r.Kind != 'P' || expired(r, ts) {
		return "", false
	}
	b, ok := c.data[r.Start]
	return string(b), ok
}

// compareIndexes compares entries with indexed cells at a snapshot below the oldest lock: whatever
// has committed up to there is complete. If that snapshot has been collected, nothing can be said.
// Without a lock it is that of the newest commit: later ones would see less of what expires.
func (a *auditor) compareIndexes() {
	at := max(a.newest, a.report.GCWatermark)
	if a.oldest != 0 {
		at = a.oldest - 1
	}
	if at < a.report.GCWatermark {
		return
	}
	for _, ix := range a.indexes {
		if st := a.filled[catalog.IndexTable(ix.table, ix.Index)]; !st.Building && at >= st.Since {
			a.compareIndex(ix, at)
		}
	}
}

// indexState tells from which snapshot on an index has its entries.
type indexState struct {
	Building bool
	Since    tso.Timestamp
}

// named reads what is stored by name. What cannot be read is nothing: then every index has to be
// complete, and no table was dropped.
func named[T any](b []byte) map[string]T {
	var stored map[string]T
	if json.Unmarshal(b, &stored) != nil {
		return nil
	}
	return stored
}

func (a *auditor) compareIndex(ix *auditedIndex, at tso.Timestamp) {
	name := ix.table + "." + ix.Name
	entries := map[string]*auditedCell{} // by row of the entry
	for _, e := range ix.entries {
		if _, ok := e.value(at); ok {
			entries[e.row] = e
		}
	}
	a.report.IndexEntries += len(entries)
	for _, c := range ix.cells {
		v, ok := c.value(at)
		if !ok {
			continue
		}
		r, _ := c.newest(at)
		key := strings.ReplaceAll(v, "\x00", "\x00\xff") + "\x00\x01"
		if !ix.Unique {
			key += c.row
		}
		e := entries[key]
		var pointer model.AuditedRecord
		if e != nil {
			pointer, _ = e.newest(at)
		}
		switch {
		case e == nil:
			a.findCell(c, model.RuleIndex, "index %q has no entry for the value committed at %d", ix.Name, r.Commit)
		case string(e.data[pointer.Start]) != c.row:
			a.findCell(c, model.RuleIndex, "the entry of index %q for the value committed at %d names another row", ix.Name, r.Commit)
		case pointer.Expires != r.Expires:
			a.findCell(c, model.RuleIndex, "the entry of index %q expires at %d, and the value committed at %d at %d", ix.Name, pointer.Expires, r.Commit, r.Expires)
		}
		delete(entries, key)
	}
	for _, e := range entries {
		r, _ := e.newest(at)
		a.find(model.RuleIndex, name, e.row, e.column, "the entry committed at %d belongs to no cell", r.Commit)
	}
}
