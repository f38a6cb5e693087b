package probe

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/tso"
)

// tornColumns are written together, in two families.
const tornColumns = 8

func tornCost(c *Config) Cost {
	n := c.effort.writes + c.effort.reads + 2
	return Cost{Requests: n + n/10, Bytes: int64(n) << 10}
}

// tornReads reads a row beside writers that each set all of its cells to one value, by each kind of
// mutation in turn.
func (p *probe) tornReads(ctx context.Context) []health.Finding {
	const row = "torn-reads"
	var columns []string
	for i := range tornColumns {
		columns = append(columns, fmt.Sprint("c", i))
	}
	write := func(ctx context.Context, i int) error {
		value := fmt.Sprint(i)
		all, plain := store.NewMutation(2*tornColumns), bigtable.NewMutation()
		for _, family := range []string{layout.DataFamily, layout.LockFamily} {
			for _, c := range columns {
				all.Put(family, c, 1, []byte(value))
				plain.Set(family, c, 1000, []byte(value))
			}
		}
		switch i % 3 {
		case 0:
			return p.store.Mutate(ctx, p.table, row, all)
		case 1:
			return p.data.Open(p.table).Apply(ctx, row, plain)
		}
		_, err := p.backend.CheckAndMutate(ctx, p.table, row, store.AllLocks(), all, all)
		return err
	}
	if err := write(ctx, 0); err != nil {
		return stopped(err)
	}
	writes, reads := p.effort.writes, p.effort.reads
	var torn, changes, last atomic.Int64
	err := each(ctx, writes+reads, parallel, func(ctx context.Context, i int) error {
		if every := (writes + reads) / writes; i%every == 0 && i/every < writes {
			return write(ctx, i/every)
		}
		r, err := p.backend.ReadRow(ctx, p.table, row, store.Newest(columns, 0, 1))
		if err != nil {
			return err
		}
		part := func(it layout.Item) bool { return string(it.Value) != string(r.Items[0].Value) }
		if len(r.Items) != 2*tornColumns || slices.ContainsFunc(r.Items, part) {
			torn.Add(1)
			return nil
		}
		var now int64
		if _, err := fmt.Sscan(string(r.Items[0].Value), &now); err == nil && last.Swap(now) != now {
			changes.Add(1)
		}
		return nil
	})
	if err != nil {
		return stopped(err)
	}
	if torn.Load() > 0 {
		return []health.Finding{failed("", "%d of %d reads saw a part of what one mutation wrote, beside %d writers", torn.Load(), reads, writes)}
	}
	return health.Fine("%d reads beside %d mutations of %d cells saw %d changes, and each all of its mutation", reads, writes, 2*tornColumns, changes.Load())
}

// rewrittenRounds is how often each way of writing is tried.
const rewrittenRounds = 6

// rewritten writes a version, erases it, and writes it again: in requests of their own, and in one.
func (p *probe) rewritten(ctx context.Context) (out []health.Finding) {
	const row = "rewritten-versions"
	for round := range rewrittenRounds {
		column, old, again := fmt.Sprint("c", round), []byte("old"), []byte(fmt.Sprint("new", round))
		ts := shapesBase + tso.Timestamp(round)
		mutation := func(erase bool, value []byte) *store.Mutation {
			m := store.NewMutation(2)
			if erase {
				m.Erase(layout.DataFamily, column, ts)
			}
			if value != nil {
				m.Put(layout.DataFamily, column, ts, value)
			}
			return m
		}
		put := mutation(false, old)
		steps := [][]*store.Mutation{{put, mutation(true, nil), mutation(false, again)}, {put, mutation(true, again)}}[round%2]
		for i, m := range steps {
			var err error
			if conditional := round/2%2 == 1; conditional {
				_, err = p.backend.CheckAndMutate(ctx, p.table, row, store.CellExists("none"), nil, m)
			} else {
				err = p.store.Mutate(ctx, p.table, row, m)
			}
			if err != nil {
				return append(out, stopped(fmt.Errorf("step %d: %w", i+1, err))...)
			}
		}
		r, err := p.backend.ReadRow(ctx, p.table, row, store.Data(store.Version{Column: column, StartTS: ts}))
		if err != nil {
			return append(out, stopped(err)...)
		}
		if len(r.Items) != 1 || string(r.Items[0].Value) != string(again) {
			out = append(out, failed("", "version %d, erased and written again as %q: a read finds %d cells", ts, again, len(r.Items)))
		}
	}
	return health.ElseFine(out, "%d versions were erased and written again at their timestamps, by each kind of mutation, and all are there", rewrittenRounds)
}

// lastOf9999 is the last timestamp whose cells lie in the year 9999.
const lastOf9999 = tso.Timestamp(253_402_300_799_999)

// farTimestamps writes versions around the end of the year 9999, today's, and the last one of all.
func (p *probe) farTimestamps(ctx context.Context) (out []health.Finding) {
	row := &modelRow{key: "far-timestamps"}
	today, end := tso.At(p.now()), tso.At(time.Date(2095, 12, 31, 0, 0, 0, 0, time.UTC))
	all := []tso.Timestamp{end, today, lastOf9999 + 1, lastOf9999}
	for _, family := range []string{layout.DataFamily, layout.LockFamily, layout.WriteFamily} {
		for _, ts := range all {
			value := []byte(fmt.Sprint(ts))
			if family == layout.WriteFamily {
				value = layout.EncodeWrite(ts-1, layout.KindPut)
			}
			row.put(family, "c", ts, value)
		}
	}
	row.sort()
	if err := p.store.Mutate(ctx, p.table, row.key, row.mutation()); err != nil {
		return stopped(fmt.Errorf("writing versions up to %s: %w", yearOf(end), err))
	}
	c := []string{"c"}
	queries := []store.Query{store.Newest(c, 0, 1), store.Newest(c, 0, len(all))}
	for _, ts := range all {
		queries = append(queries, store.Newest(c, ts, 1), store.Newest(c, ts-1, 1), store.Data(store.Version{Column: "c", StartTS: ts}),
			store.HeldLock("c", ts), store.Record("c", ts-1), store.Conflict(c, ts, false), store.Records("c", ts, 1))
	}
	for _, q := range queries {
		if differs, err := p.ask(ctx, row, q); err != nil {
			return append(out, stopped(err)...)
		} else if differs != "" && len(out) < maxNamed {
			out = append(out, failed("", "%s: %s", asked(q), differs))
		}
	}
	return health.ElseFine(out, "versions of %s (today's), and up to %s: %d queries find them", yearOf(today), yearOf(end), len(queries))
}

// yearOf says what time Bigtable takes a cell's timestamp for.
func yearOf(ts tso.Timestamp) string {
	return fmt.Sprintf("the year %d", time.UnixMicro(layout.CellTime(ts)).UTC().Year())
}
