package probe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// The rows that queries are asked about have names and values of all bytes. The names are blocks of
// 16 bytes, 0x00 to 0x0f, 0x10 to 0x1f…; beside each are three that a wrong filter takes for it.

const blocks = 16

func block(i int) string {
	b := make([]byte, 256/blocks)
	for j := range b {
		b[j] = byte(i*len(b) + j)
	}
	return string(b)
}

// decoys are names that a filter for name must not let through.
func decoys(name string) []string {
	changed := []byte(name)
	changed[8]++
	return []string{string(changed), name[:len(name)-1], name + "\x00"}
}

// shapesBase is a timestamp whose lowest byte is 0; its cells lie long before the year 9999.
const shapesBase = tso.Timestamp(1 << 40)

// startOf is the start timestamp of a block's transaction: the lowest bytes go from 0x00 to 0xff.
func startOf(i int) tso.Timestamp { return shapesBase + tso.Timestamp(i*17) }

// modelRow is a row, in the order of layout.Row, and the mutation that makes it.
type modelRow struct {
	key   string
	items []layout.Item
}

func (r *modelRow) put(family, column string, ts tso.Timestamp, value []byte) {
	r.items = append(r.items, layout.Item{Family: family, Column: column, Timestamp: layout.CellTime(ts), Value: value})
}

func (r *modelRow) mutation() *store.Mutation {
	m := store.NewMutation(len(r.items))
	for _, it := range r.items {
		m.Put(it.Family, it.Column, tso.Timestamp(it.Timestamp/1000), it.Value)
	}
	return m
}

func (r *modelRow) sort() {
	slices.SortFunc(r.items, func(a, b layout.Item) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Column, b.Column), cmp.Compare(b.Timestamp, a.Timestamp))
	})
}

// keyOf is a row key with all bytes.
func keyOf(what string) string {
	var key strings.Builder
	key.WriteString(what)
	for i := range blocks {
		key.WriteString(block(i))
	}
	return key.String()
}

// kinds are those of the records in turn.
var kinds = [...]layout.Kind{layout.KindPut, layout.KindLock, layout.KindDelete, layout.KindRollback}

// cellsRow has three versions of each name in each family of a user's table, and one of each decoy.
func cellsRow() *modelRow {
	r := &modelRow{key: keyOf("cells")}
	for i := range blocks {
		start, name := startOf(i), block(i)
		put := func(name string, ts tso.Timestamp) {
			r.put(layout.DataFamily, name, ts, []byte(block(i)+fmt.Sprint(ts)))
			r.put(layout.LockFamily, name, ts, []byte(block(blocks-1-i)))
			r.put(layout.NotifyFamily, name, ts, []byte{})
			r.put(layout.WriteFamily, name, ts, layout.EncodeWrite(2*start-ts, kinds[(int(ts)+i)%len(kinds)]))
		}
		for _, ts := range []tso.Timestamp{start - 1, start, start + 1} {
			put(name, ts)
		}
		for _, decoy := range decoys(name) {
			put(decoy, start)
		}
	}
	for _, reserved := range []string{layout.AckColumn("c", "O"), layout.TracePrefix + "c"} {
		for _, ts := range []tso.Timestamp{startOf(1), startOf(9)} {
			r.put(layout.WriteFamily, reserved, ts, layout.EncodeWrite(ts-1, layout.KindLock))
		}
	}
	r.sort()
	return r
}

// metaRow has cells as percolator_meta has them.
func metaRow() *modelRow {
	r := &modelRow{key: keyOf("meta")}
	for i := range blocks {
		for _, name := range append(decoys(block(i)), block(i)) {
			r.put(layout.MetaFamily, name, 1, binary.BigEndian.AppendUint64(nil, uint64(startOf(i))))
			r.put(layout.MetaFamily, name, 2, []byte(block(i)))
		}
	}
	r.sort()
	return r
}

// journalRow has cells as percolator_journal has them.
func journalRow() *modelRow {
	r := &modelRow{key: keyOf("journal")}
	for i := range blocks {
		for ts := range tso.Timestamp(3) {
			r.put(layout.JournalFamily, block(i), startOf(i)+ts, []byte(block(i)+fmt.Sprint(ts)))
		}
	}
	r.sort()
	return r
}

// cellQueries asks for every shape of a user's table.
func cellQueries() (out []store.Query) {
	var all []string
	for i := range blocks {
		column, at := block(i), startOf(i)
		all = append(all, column)
		two := []string{column, block((i + 1) % blocks)}
		low, high := min(two[0], two[1]), max(two[0], two[1])
		out = append(out, store.Newest([]string{column}, at, 1), store.Newest(two, 0, 2), store.NewestIn(catalog.Union(model.Between(low, high), model.Row(column)), at, 2),
			store.Newest(two, at, 2).OnlyChanges(), store.Newest(nil, at, 2).OnlyChanges(), store.WholeRow(at, 2).OnlyChanges(), store.Changes(two, at),
			store.NewestIn(catalog.Union(model.Prefix(column[:8]), model.Between(high, "")), 0, 1), store.Data(store.Version{Column: column, StartTS: at}),
			store.Data(store.Version{Column: column, StartTS: at}, store.Version{Column: two[1], StartTS: at}), store.HasData(column, at+1),
			store.HeldLock(column, at), store.HeldLock(column, at+2), store.Record(column, at), store.Record(column, at-1), store.Primary(column, at),
			store.Conflict(two[:1], at+1, false), store.Conflict(two[:1], at+2, true), store.Conflict(two, at, false), store.Conflict(two, at+2, true),
			store.ConflictSpan(low, high, at, false), store.ConflictSpan(low, high, at+1, true), store.AnyNotify(column), store.AnyNotify(two[1]),
			store.Records(column, at, 2), store.RecordsAndLocks(two, 2), store.Inspected(two[:1], 2, 40),
			store.WrittenSince(at), store.RecordsFrom(at-1, at+1), store.Changed(two, at, at+2), store.ChangedRecords(nil, at-1, at), store.Locks(at), store.Exported(at, i%2 == 0), store.Weak(at), store.WholeRow(at, 3),
			store.PendingUpTo(at, 1), store.PendingUpTo(at+1, 2))
	}
	return append(out, store.Newest(all, startOf(blocks/2), 2), store.Newest(all, 0, 2).OnlyChanges(), store.Changes(all, startOf(blocks/2)), store.RecordsAndLocks(all, 1), store.Newest(nil, 0, 1), store.Conflict(all, startOf(blocks/2), false),
		store.Conflict([]string{"none"}, 1, true), store.Pending(), store.AllLocks(), store.Garbage(), store.History(), store.Anything(), store.Locks(0),
		store.Inspected(nil, 1, 7), store.Inspected(all, 3, 1000))
}

// metaQueries asks for every shape of percolator_meta.
func metaQueries() (out []store.Query) {
	for i := range blocks {
		column, at, next := block(i), startOf(i), block((i+1)%blocks)
		out = append(out, store.Cells(column[:4], 0), store.Cells(column, 1), store.CellExists(column), store.CellExists(column+"\x00\x00"),
			store.CellIs(column, []byte(column)), store.CellIs(column, []byte(column[:15])), store.CellBegins(column, []byte(column[:15])), store.CellBegins(column, []byte(next)), store.CellAtLeast(column, at), store.CellAtLeast(column, at+1),
			store.EitherCell(column, next), store.SafepointRefused(column, next, at), store.SafepointRefused(column, next, at-1), store.SafepointRefused(column, next, startOf((i+1)%blocks)-1), store.HoldRefused(column, next, at))
	}
	return append(out, store.Cells("", 0), store.EitherCell("none", "neither"))
}

func shapesCost(c *Config) Cost {
	n := 2*(len(cellQueries())+len(metaQueries())+1)/c.effort.every + 7
	return Cost{Requests: n + n/10, Bytes: int64(n)*1600 + 300<<10}
}

// shapes compares what the store answers with what the queries are for, as reads and as predicates.
func (p *probe) shapes(ctx context.Context) []health.Finding {
	var mu sync.Mutex
	var wrong []health.Finding
	n, seen := 0, map[store.Shape]bool{}
	for _, c := range []struct {
		row     *modelRow
		queries []store.Query
	}{{cellsRow(), cellQueries()}, {metaRow(), metaQueries()}, {journalRow(), []store.Query{store.JournalCells()}}} {
		if err := p.store.Mutate(ctx, p.table, c.row.key, c.row.mutation()); err != nil {
			return append(wrong, stopped(err)...)
		}
		err := each(ctx, (len(c.queries)-1)/p.effort.every+1, parallel, func(ctx context.Context, i int) error {
			q := c.queries[i*p.effort.every]
			differs, err := p.ask(ctx, c.row, q)
			mu.Lock()
			defer mu.Unlock()
			n++
			seen[q.Shape] = true
			if differs != "" && len(wrong) < maxNamed {
				wrong = append(wrong, failed("", "%s: %s", asked(q), differs))
			}
			return err
		})
		if err != nil {
			return append(wrong, stopped(err)...)
		}
	}
	return health.ElseFine(wrong, "%d queries of %d shapes, as reads and as predicates, with the bytes 0x00 to 0xff in names and values: each finds what it is for", n, len(seen))
}

// asked says what a query asks for, without bytes that a terminal might take for something.
func asked(q store.Query) string {
	return fmt.Sprintf("the query %q for %q, %q, %q to %q at %d, %d versions", q.Shape, q.Columns, q.Ranges, q.Column, q.Other, q.At, q.N)
}

// maxNamed is how many failures of one kind are named.
const maxNamed = 3

// ask compares one query.
func (p *probe) ask(ctx context.Context, row *modelRow, q store.Query) (differs string, err error) {
	got, err := p.backend.ReadRow(ctx, p.table, row.key, q)
	if err != nil {
		return refusal("reading", err)
	}
	want, most := q.Evaluate(row.items)
	if differs = difference(got.Items, want, most); differs != "" {
		return differs, nil
	}
	nothing := store.NewMutation(1)
	nothing.Erase(layout.MetaFamily, "none", 1)
	matched, err := p.backend.CheckAndMutate(ctx, p.table, row.key, q, nothing, nothing)
	switch {
	case err != nil:
		return refusal("as a predicate", err)
	case matched != (len(want) > 0):
		return fmt.Sprintf("as a predicate: %v, and it finds %d cells", matched, len(want)), nil
	}
	return "", nil
}

// refusal is how a query fails that the store does not answer.
func refusal(what string, err error) (differs string, _ error) {
	if outOfReach(err) {
		return "", err
	}
	return fmt.Sprintf("%s: %v", what, err), nil
}

// difference says how got is not want, or most cells of it.
func difference(got, want []layout.Item, most int) string {
	left := slices.Clone(want)
	for _, it := range got {
		at := slices.IndexFunc(left, func(w layout.Item) bool {
			return w.Family == it.Family && w.Column == it.Column && w.Timestamp == it.Timestamp && bytes.Equal(w.Value, it.Value)
		})
		if at < 0 {
			return fmt.Sprintf("it answers %s %q@%d = %q, once too often", it.Family, it.Column, it.Timestamp, it.Value)
		}
		left = slices.Delete(left, at, at+1)
	}
	if most == 0 || most > len(want) {
		most = len(want)
	}
	if len(got) > most {
		return fmt.Sprintf("it answers %d cells, where %d were asked for", len(got), most)
	}
	if len(got) < most {
		return fmt.Sprintf("it answers %d cells of %d; %s %q@%d is missing, say", len(got), most, left[0].Family, left[0].Column, left[0].Timestamp)
	}
	return ""
}
