package emulator_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// Scans of random ranges of rows and columns are compared with what was committed, in snapshots of
// the present and of the past and in transactions with writes of their own, while locks of
// transactions that are dead, committed or alive lie on the way.

var (
	scannedRows    = []string{"a", "a\x00", "a\x00\x00", "ab", "b", "b\xff", "c", "c/1", "c/2", "\xff", "\xff\xff"}
	scannedColumns = []string{".*", "\x01", "\n", "a", "a.b", "ab", "axb", "b", "b\x01", "seen", "\xff", "\xff\xff"}
	// Only these have locks of the living: of a row that changes while it is read Google's emulator
	// may miss another column.
	narrowRows = []string{"n1", "n2"}
)

// scanModel is every committed version of every cell.
type scanModel struct {
	*testing.T
	ctx context.Context
	env *percolatortest.Env
	rng *rand.Rand

	versions map[percolator.Cell]map[tso.Timestamp]string // "" is a deletion
	commits  []tso.Timestamp
	writes   int
}

func TestScansOfRangesMatchTheModel(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	for name, opts := range map[string][]percolatortest.Option{"store": {percolatortest.Address(storeAddr)}, "embedded": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			m := &scanModel{T: t, ctx: fixture.Context(t), env: fixture.NewEnv(t, opts...), rng: rand.New(rand.NewPCG(seed, 0)),
				versions: map[percolator.Cell]map[tso.Timestamp]string{}}
			for range 25 {
				m.step()
				m.snapshots()
				m.transaction()
			}
		})
	}
}

func oneOf[T any](m *scanModel, of []T) T { return of[m.rng.IntN(len(of))] }

// change is what a transaction may do to some cells: values, or "" to delete.
func (m *scanModel) change(rows, columns []string, most int) map[percolator.Cell]string {
	out := map[percolator.Cell]string{}
	for range 1 + m.rng.IntN(most) {
		m.writes++
		value := fmt.Sprint("v", m.writes)
		if m.rng.IntN(4) == 0 {
			value = ""
		}
		out[fixture.Cell(oneOf(m, rows), oneOf(m, columns))] = value
	}
	return out
}

func (m *scanModel) buffer(tx *percolator.Txn, change map[percolator.Cell]string) {
	for c, value := range change {
		if value == "" {
			fixture.Must(m, tx.Delete(c))
		} else {
			fixture.Must(m, tx.Set(c, []byte(value)))
		}
	}
}

// committed adds a change to the model.
func (m *scanModel) committed(ts tso.Timestamp, change map[percolator.Cell]string) {
	m.commits = append(m.commits, ts)
	for c, value := range change {
		if m.versions[c] == nil {
			m.versions[c] = map[tso.Timestamp]string{}
		}
		m.versions[c][ts] = value
	}
}

// step commits a change, and leaves the locks of another one behind.
func (m *scanModel) step() {
	change := m.change(scannedRows, scannedColumns, 20)
	tx := fixture.MustBegin(m, m.ctx, m.env.Client)
	m.buffer(tx, change)
	m.committed(fixture.MustCommit(m, m.ctx, tx), change)
	fixture.Must(m, m.env.Client.Flush(m.ctx))
	switch m.rng.IntN(4) {
	case 0:
		m.crash(false)
	case 1:
		m.crash(true)
	}
}

// isCommitOf recognizes the commit point of one transaction. Its client may roll others forward
// before.
func isCommitOf(tx *percolator.Txn, r percolatortest.Request) bool {
	m, ok := r.Message.(*btpb.CheckAndMutateRowRequest)
	return ok && slices.ContainsFunc(m.TrueMutations, func(m *btpb.Mutation) bool {
		set := m.GetSetCell()
		return set.GetFamilyName() == "write" && binary.BigEndian.Uint64(set.Value) == uint64(tx.StartTimestamp())
	})
}

// crash makes another client die before its commit point, or behind it.
func (m *scanModel) crash(behind bool) {
	c := m.env.NewClient()
	change := m.change(scannedRows, scannedColumns, 8)
	tx := fixture.MustBegin(m, m.ctx, c)
	m.buffer(tx, change)
	done := false
	m.env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		switch {
		case isCommitOf(tx, r):
			if done = true; !behind {
				return percolatortest.Crash
			}
		case done && r.Table == "t": // not the client's own reads of percolator_meta, beside the commit
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	ts, err := tx.Commit(m.ctx)
	if (err == nil) != behind {
		m.Fatalf("a crash, and the commit says %v", err)
	}
	m.env.FaultsOf(c).Crash()
	if err == nil {
		m.committed(ts, change)
	} else {
		m.env.Clock.Advance(fixture.LockTTL)
	}
}

// options are of all sorts: none, ranges that overlap, that touch, that are empty or the wrong way
// round; from the last row to the first, and to a limit.
func (m *scanModel) options() (o percolator.ScanOptions) {
	anyRange := func(names []string) percolator.Range {
		name := oneOf(m, names)
		switch m.rng.IntN(8) {
		case 0:
			return percolator.All()
		case 1, 2:
			return percolator.Prefix(name[:m.rng.IntN(len(name)+1)])
		case 3, 4:
			return percolator.Row(name)
		case 5:
			return percolator.Between(name, "")
		}
		return percolator.Between(name, oneOf(m, names))
	}
	for range m.rng.IntN(5) {
		o.Rows = append(o.Rows, anyRange(append(narrowRows, scannedRows...)))
	}
	if m.rng.IntN(2) == 0 {
		for range m.rng.IntN(8) {
			o.Columns = append(o.Columns, oneOf(m, scannedColumns))
		}
	}
	for range m.rng.IntN(4) {
		o.ColumnRanges = append(o.ColumnRanges, anyRange(append([]string{"", "\x00", "\x00a"}, scannedColumns...)))
	}
	o.Reverse = m.rng.IntN(2) == 0
	if m.rng.IntN(2) == 0 {
		o.Limit = 1 + m.rng.IntN(5)
	}
	return o
}

// want is what a scan at ts has to find, beside the own writes of a transaction.
func (m *scanModel) want(o percolator.ScanOptions, ts tso.Timestamp, own map[percolator.Cell]string) []percolator.Entry {
	in := func(ranges []percolator.Range, key string) bool {
		return slices.ContainsFunc(ranges, func(r percolator.Range) bool { return key >= r.Start && (r.End == "" || key < r.End) })
	}
	var out []percolator.Entry
	add := func(c percolator.Cell, value string, ts tso.Timestamp) {
		column := len(o.Columns)+len(o.ColumnRanges) == 0 || slices.Contains(o.Columns, c.Column) || in(o.ColumnRanges, c.Column)
		if value != "" && column && (len(o.Rows) == 0 || in(o.Rows, c.Row)) {
			out = append(out, percolator.Entry{Cell: c, Value: []byte(value), CommitTS: ts})
		}
	}
	for c, versions := range m.versions {
		newest := tso.Timestamp(0)
		for at := range versions {
			if at <= ts {
				newest = max(newest, at)
			}
		}
		if _, mine := own[c]; !mine {
			add(c, versions[newest], newest)
		}
	}
	for c, value := range own {
		add(c, value, 0)
	}
	slices.SortFunc(out, func(a, b percolator.Entry) int {
		if c := strings.Compare(b.Cell.Row, a.Cell.Row); o.Reverse && c != 0 {
			return c
		}
		return history.Cell(a.Cell).Compare(history.Cell(b.Cell))
	})
	rows := 0
	for i := range out {
		if i == 0 || out[i].Cell.Row != out[i-1].Cell.Row {
			if rows++; o.Limit > 0 && rows > o.Limit {
				return out[:i]
			}
		}
	}
	return out
}

func spelled(es []percolator.Entry) string {
	var b strings.Builder
	for _, e := range es {
		if slices.Contains(narrowRows, e.Cell.Row) && e.CommitTS > 0 {
			e.CommitTS = 1 // the model knows a later timestamp than the right one
		}
		fmt.Fprintf(&b, "%s=%s@%d ", e.Cell, e.Value, e.CommitTS)
	}
	return b.String()
}

func (m *scanModel) check(what string, o percolator.ScanOptions, got iter.Seq2[percolator.Entry, error], want []percolator.Entry) {
	m.Helper()
	var es []percolator.Entry
	for e, err := range got {
		if err != nil {
			m.Fatalf("%s of %#v: %v", what, o, err)
		}
		es = append(es, e)
	}
	if got, want := spelled(es), spelled(want); got != want {
		m.Errorf("%s of %#v:\n%s\nwant\n%s", what, o, got, want)
	}
}

// snapshots scans the present and the past; in the present beside a transaction that is about to
// commit.
func (m *scanModel) snapshots() {
	release := m.alive()
	now, err := m.env.Client.Snapshot(m.ctx)
	fixture.Must(m, err)
	release()
	for range 3 {
		o := m.options()
		m.check("a scan", o, now.ScanWith(m.ctx, "t", o), m.want(o, now.StartTimestamp(), nil))
	}
	past, err := m.env.Client.Snapshot(m.ctx, percolator.AsOfTimestamp(oneOf(m, m.commits)))
	fixture.Must(m, err)
	o := m.options()
	m.check("a scan of the past", o, past.ScanWith(m.ctx, "t", o), m.want(o, past.StartTimestamp(), nil))
}

// alive makes another client stop at the commit point of a transaction that the model has already;
// release lets it go on at some time.
func (m *scanModel) alive() (release func()) {
	c := m.env.NewClient()
	change := m.change(narrowRows, []string{"b"}, 2)
	tx := fixture.MustBegin(m, m.ctx, c)
	m.buffer(tx, change)
	hold := percolatortest.NewHold()
	m.env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsCommit(r) {
			return hold
		}
		return percolatortest.Pass
	})
	committed := make(chan error, 1)
	go func() { committed <- fixture.ErrOf(tx.Commit(m.ctx)) }()
	hold.Wait(m, 1)
	at, err := m.env.Oracle.Next(m.ctx) // behind the commit timestamp
	fixture.Must(m, err)
	m.committed(at, change)
	m.Cleanup(func() { fixture.Must(m, <-committed) })
	return func() { go hold.Release() }
}

// transaction scans with own writes and, half of the time, locks what it reads: then it conflicts
// with whoever writes a cell that it was told of, and with nobody else.
func (m *scanModel) transaction() {
	var opts []percolator.TxnOption
	locks := m.rng.IntN(2) == 0
	if locks {
		opts = append(opts, percolator.LockReads())
	}
	tx := fixture.MustBegin(m, m.ctx, m.env.Client, opts...)
	own := m.change(scannedRows, scannedColumns, 6)
	m.buffer(tx, own)
	conflicts := map[percolator.Cell]bool{}
	for c := range own {
		conflicts[c] = true
	}
	for range 2 {
		o := m.options()
		want := m.want(o, tx.StartTimestamp(), own)
		m.check("a transaction's scan", o, tx.ScanWith(m.ctx, "t", o), want)
		for _, e := range want {
			conflicts[e.Cell] = conflicts[e.Cell] || locks
		}
	}
	for c := range m.change(scannedRows, scannedColumns, 1) {
		other := map[percolator.Cell]string{c: "other"}
		writer := fixture.MustBegin(m, m.ctx, m.env.Client)
		m.buffer(writer, other)
		m.committed(fixture.MustCommit(m, m.ctx, writer), other)
		fixture.Must(m, m.env.Client.Flush(m.ctx))
		ts, err := tx.Commit(m.ctx)
		if conflict := errors.Is(err, percolator.ErrConflict); conflict != conflicts[c] || err != nil && !conflict {
			m.Errorf("a transaction with the conflicts %v, beside a write of %s: %v", conflicts, c, err)
		}
		if err == nil {
			m.committed(ts, own)
		}
	}
	fixture.Must(m, m.env.Client.Flush(m.ctx))
}
