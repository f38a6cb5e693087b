package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

// sizes are queries of all shapes with names and values of n bytes.
func sizes(n int) map[string]store.Query {
	name := func(b byte) string { return strings.Repeat(string(rune(b)), n-1) + "." }
	a, b, value := name('a'), name('b'), []byte(name('v'))
	many := []string{a, b, name('c'), name('d'), name('e')}
	return map[string]store.Query{
		"newest of one": store.Newest(many[:1], 1<<50, 1), "newest of many": store.Newest(many, 1<<50, 1), "newest of all": store.Newest(nil, 0, 1),
		"newest changes of one": store.Newest(many[:1], 1<<50, 1).OnlyChanges(), "newest changes of many": store.Newest(many, 1<<50, 1).OnlyChanges(),
		"newest changes of all": store.Newest(nil, 0, 1).OnlyChanges(), "whole row of changes": store.WholeRow(1<<50, 3).OnlyChanges(),
		"changes of one": store.Changes(many[:1], 1<<50), "changes of many": store.Changes(many, 1<<50), "changes of all": store.Changes(nil, 1<<50),
		"newest in ranges": store.NewestIn(catalog.Union(model.Between(a, b), model.Prefix(many[3])), 1<<50, 1),
		"whole row":        store.WholeRow(1<<50, 3), "data": store.Data(store.Version{Column: a, StartTS: 1 << 50}),
		"data of two": store.Data(store.Version{Column: a, StartTS: 1 << 50}, store.Version{Column: b, StartTS: 1 << 50}),
		"has data":    store.HasData(a, 1<<50), "lock": store.HeldLock(a, 1<<50), "record": store.Record(a, 1<<50), "primary": store.Primary(a, 1<<50),
		"conflict": store.Conflict(many[:1], 1<<50, true), "conflict again": store.Conflict(many[:1], 1<<50, false),
		"conflict of many": store.Conflict(many, 1<<50, true), "conflict of many again": store.Conflict(many, 1<<50, false),
		"span": store.ConflictSpan(a, b, 1<<50, true), "span again": store.ConflictSpan(a, b, 1<<50, false),
		"any notify": store.AnyNotify(a), "pending": store.Pending(), "pending up to": store.PendingUpTo(1<<50, 3),
		"written": store.WrittenSince(1 << 50), "locks": store.Locks(1 << 50), "all locks": store.AllLocks(), "garbage": store.Garbage(),
		"exported": store.Exported(1<<50, true), "weak": store.Weak(1 << 50), "records": store.Records(a, 1<<50, 3),
		"records and locks": store.RecordsAndLocks(many, 3), "inspected": store.Inspected(many, 3, 9), "anything": store.Anything(), "history": store.History(),
		"records from": store.RecordsFrom(1<<49, 1<<50), "changed": store.Changed(many[:1], 1<<49, 1<<50), "changed of many": store.Changed(many, 1<<49, 1<<50),
		"cells": store.Cells(a, 3), "cell is": store.CellIs(a, value), "cell begins": store.CellBegins(a, value), "cell at least": store.CellAtLeast(a, 1<<50),
		"either": store.EitherCell(a, b), "journal": store.JournalCells(), "safepoint": store.SafepointRefused(a, b, 1<<50), "hold": store.HoldRefused(a, b, 1<<50),
	}
}

// A query is as long as what Bigtable is sent, or hardly longer.
func TestFilterBytes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 100, 1000} {
		for name, q := range sizes(n) {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				t.Parallel()
				sent, counted := layertest.PredicateBytes(t, q), q.FilterBytes()
				if counted < sent || counted > sent+sent/5+250 {
					t.Errorf("counted %d bytes, sent %d", counted, sent)
				}
			})
		}
	}
}
