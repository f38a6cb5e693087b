package simulated

import (
	"context"
	"math"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// ReadRow implements store.Backend.
func (c *Connection) ReadRow(ctx context.Context, table, row string, q store.Query) (answer layout.Row, err error) {
	err = c.ReadRows(ctx, table, store.Rows{Keys: []string{row}}, q, 1, nil, func(r layout.Row) bool {
		answer = r
		return true
	})
	return answer, err
}

// ReadRows implements store.Backend.
func (c *Connection) ReadRows(ctx context.Context, table string, rows store.Rows, q store.Query, limit int, passed func(key string), visit func(layout.Row) bool) error {
	if limit < 0 {
		return status.Error(codes.Unknown, "bigtable: row limit cannot be negative")
	}
	attempts := store.AttemptsOf(ctx)
	if passed != nil {
		attempts = nil
	}
	rd := &reading{conn: c, ctx: ctx, table: table, query: &q, limit: limit, passed: passed, visit: visit}
	if rd.keys = rows.Keys != nil; rd.keys {
		rd.left.Keys = ascending(rows.Keys)
	} else if rd.left = (store.Rows{Ranges: catalog.Union(rows.Ranges...), Reverse: rows.Reverse}); len(rows.Ranges) == 0 {
		rd.left.Ranges = catalog.Ranges{{}}
	}
	return c.repeat(ctx, attempts, rd.attempt)
}

// ascending is the keys in order, each once.
func ascending(keys []string) []string {
	keys = slices.Clone(keys)
	if len(keys) > 1 {
		slices.Sort(keys)
		keys = slices.Compact(keys)
	}
	return keys
}

// reading is a read with its repetitions.
type reading struct {
	conn   *Connection
	ctx    context.Context
	table  string
	query  *store.Query
	limit  int
	passed func(key string)
	visit  func(layout.Row) bool

	keys bool       // it names keys
	left store.Rows // what no answer has covered
	seen int        // rows
	done bool       // the caller wants no more
}

// first names the row by which faults of the read are decided.
func (rd *reading) first() string {
	switch {
	case rd.keys:
		return rd.left.Keys[0]
	case rd.left.Reverse:
		return rd.left.Ranges[len(rd.left.Ranges)-1].End
	}
	return rd.left.Ranges[0].Start
}

// finished reports whether nothing is left to be sent for.
func (rd *reading) finished() bool {
	return rd.done || rd.limit > 0 && rd.seen >= rd.limit || len(rd.left.Keys) == 0 && len(rd.left.Ranges) == 0
}

// attempt sends for what is left.
func (rd *reading) attempt() (hash, error) {
	if rd.finished() {
		return 0, nil
	}
	req, err := rd.conn.send(rd.ctx, opReadRows, rd.table, rd.first())
	if err != nil {
		return req.hash, err
	}
	if err := checkRead(rd.left, rd.query); err != nil {
		return req.hash, err
	}
	return req.hash, rd.stream(req)
}

// stream receives the pages of one attempt.
func (rd *reading) stream(r request) error {
	f := r.fate(false)
	if err := r.wait(rd.ctx, f.out); err != nil {
		return r.conn.receive(rd.ctx, err)
	}
	if f.lost || f.silent || f.failed != nil {
		return r.answer(rd.ctx, f, nil)
	}
	r.conn.cluster.landed.Add(1)
	broken := -1 // the row before which the stream breaks
	if r.conn.cluster.faults.decides(StreamBroken, r.hash) {
		broken = int(math.Exp2(breakRows*r.hash.with(breakMark).float())) - 1
	}
	pause := f.back / 4 // between pages
	for h := r.hash.with(pageMark); ; h = h.with(pageMark) {
		p, err := r.table.page(rd.left, rd.query, rd.rest(), h)
		if err := r.answer(rd.ctx, fate{back: f.back + p.cost}, err); err != nil {
			return err
		}
		if broken >= 0 && broken <= len(p.rows) {
			r.conn.cluster.faults.happened(StreamBroken)
			if broken > 0 && rd.visitAll(p.rows[:broken]) {
				rd.behind(p.rows[broken-1].Key)
			}
			if rd.done {
				return nil
			}
			return brokenRead(r.hash)
		}
		broken -= len(p.rows)
		if rd.take(p); p.end || rd.finished() {
			return nil
		}
		f.back = h.within(pause)
	}
}

// breakRows bounds how many rows come before a stream breaks, as a power of 2.
const breakRows = 12

// brokenRead is mostly an error after which Google's client reads on.
func brokenRead(h hash) error {
	switch h = h.with(errorMark); h.below(4) {
	case 0:
		return openError(h)
	case 1:
		return status.Error(codes.Internal, brokenStream)
	}
	return unavailable("the stream is broken")
}

// rest is how many rows are still wanted; 0: all.
func (rd *reading) rest() int {
	if rd.limit == 0 {
		return 0
	}
	return rd.limit - rd.seen
}

// take hands out a page, and leaves what follows it.
func (rd *reading) take(p page) {
	if !rd.visitAll(p.rows) {
		return
	}
	rd.from(p.next)
	if p.kept && rd.passed != nil {
		rd.passed(p.last)
	}
}

// visitAll hands out rows until the caller wants no more.
func (rd *reading) visitAll(rows []layout.Row) (more bool) {
	for _, r := range rows {
		rd.seen++
		if !rd.visit(r) {
			rd.done = true
			return false
		}
	}
	return true
}

// behind takes everything up to a key, and the key, from what is left.
func (rd *reading) behind(key string) {
	if rd.left.Reverse {
		rd.from(key)
	} else {
		rd.from(key + "\x00")
	}
}

// from takes everything before a key from what is left; of a reverse read, the key and everything
// above it.
func (rd *reading) from(key string) {
	switch {
	case rd.keys:
		at, _ := slices.BinarySearch(rd.left.Keys, key)
		rd.left.Keys = rd.left.Keys[at:]
	case rd.left.Reverse:
		rd.left.Ranges = rd.left.Ranges.Within(model.Between("", key))
	default:
		rd.left.Ranges = rd.left.Ranges.Within(model.Between(key, ""))
	}
}
