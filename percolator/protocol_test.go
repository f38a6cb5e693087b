package percolator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/cockroachdb/datadriven"

	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// TestProtocol runs the histories in testdata/protocol: each step of a commit by itself, so that a file reads like the
// figures of the paper. The oracle counts 1, 2, 3 … unless a history sets it.
func TestProtocol(t *testing.T) {
	t.Parallel()
	em, err := emulator.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { em.Close() })
	var instances atomic.Int64
	datadriven.Walk(t, "testdata/protocol", func(t *testing.T, path string) {
		h := newHistory(t, em, fmt.Sprintf("i%d", instances.Add(1)))
		datadriven.RunTest(t, path, h.step)
	})
}

// counter is an oracle whose present a test sets.
type counter struct{ last atomic.Int64 }

func (o *counter) Next(context.Context) (tso.Timestamp, error) {
	return tso.Timestamp(o.last.Add(1)), nil
}

// history is the state of one file: one store, one client, transactions by name.
type history struct {
	t      *testing.T
	ctx    context.Context
	c      *Client
	oracle *counter
	txns   map[string]*Txn
	commit map[string]*commit
	ts     map[string]tso.Timestamp // commit timestamps
}

func newHistory(t *testing.T, em *emulator.Server, instance string) *history {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	schema := &Schema{Tables: []Table{{Name: "t", Observed: []string{"seen"}, Weak: []string{"poke"}}}}
	if err := CreateSchema(ctx, "p", instance, schema, em.ClientOptions()...); err != nil {
		t.Fatal(err)
	}
	oracle := &counter{}
	c, err := NewClient(ctx, Config{Project: "p", Instance: instance, Oracle: oracle}, em.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &history{t, ctx, c, oracle, map[string]*Txn{}, map[string]*commit{}, map[string]tso.Timestamp{}}
}

// step runs one command; its arguments are words, a quoted word is unquoted.
func (h *history) step(t *testing.T, d *datadriven.TestData) string {
	var words []string
	for _, a := range d.CmdArgs {
		w := a.String()
		if u, err := strconv.Unquote(w); err == nil {
			w = u
		}
		words = append(words, w)
	}
	out, err := h.run(d.Cmd, words)
	if err != nil {
		return out + h.describe(err) + "\n"
	}
	if out == "" {
		return "ok\n"
	}
	return out
}

// describe prints which situation an error is, and the conflict's detail.
func (h *history) describe(err error) string {
	var conflict *ConflictError
	if errors.As(err, &conflict) {
		return strings.TrimPrefix(conflict.Error(), "percolator: ")
	}
	for _, sentinel := range []error{ErrNotFound, ErrExists, ErrUnique, ErrLocked, ErrOutcomeUnknown, ErrSnapshotTooOld, ErrInvalidArgument,
		ErrTooLarge, ErrSchemaMismatch, ErrTxnDone, ErrCorrupt} {
		if errors.Is(err, sentinel) {
			return sentinel.Error()
		}
	}
	return err.Error()
}

func (h *history) run(cmd string, w []string) (string, error) {
	switch cmd {
	case "oracle": // the next timestamp; "+10s" moves it by a duration
		if d, ok := strings.CutPrefix(w[0], "+"); ok {
			by, err := time.ParseDuration(d)
			h.oracle.last.Add(int64(tso.Timestamp(0).Add(by)))
			return "", err
		}
		n, err := strconv.ParseInt(w[0], 10, 64)
		h.oracle.last.Store(n - 1)
		return "", err
	case "begin":
		tx, err := h.c.Begin(h.ctx)
		if err != nil {
			return "", err
		}
		h.txns[w[0]] = tx
		return fmt.Sprintf("start %d\n", tx.StartTimestamp()), nil
	case "set":
		return "", h.txns[w[0]].Set(cell(w[1], w[2]), []byte(w[3]))
	case "delete":
		return "", h.txns[w[0]].Delete(cell(w[1], w[2]))
	case "notify":
		return "", h.txns[w[0]].Notify(cell(w[1], w[2]))
	case "lock":
		_, err := h.txns[w[0]].GetForUpdate(h.ctx, cell(w[1], w[2]))
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
		return "", err
	case "get", "read":
		return h.get(cmd, w)
	case "commit":
		ts, err := h.txns[w[0]].Commit(h.ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("commit %d\n", ts), h.c.Flush(h.ctx)
	case "prewrite", "timestamp", "commit-primary", "phase-two":
		return h.phase(cmd, w)
	case "ack":
		a, err := h.txns[w[0]].Acknowledge(h.ctx, cell(w[1], w[2]), w[3], w[4:])
		return fmt.Sprintf("run=%v settled=%v deleted=%v changed=%d last=%d\n", a.Run, a.Settled, a.Deleted, a.CommitTS, a.LastRun), err
	case "pending":
		return h.pending()
	case "resolve":
		return h.resolve(w)
	case "raw": // raw FAMILY ROW COLUMN TS VALUE: a cell that the protocol would not write
		return "", h.raw(w)
	case "dump":
		return h.dump()
	}
	return "", fmt.Errorf("unknown command %q", cmd)
}

func cell(row, column string) Cell { return Cell{"t", row, column} }

// get reads in a transaction, read in a snapshot at a timestamp. A reader that would have to wait says so.
func (h *history) get(cmd string, w []string) (string, error) {
	var r Reader
	if cmd == "get" {
		r = h.txns[w[0]]
	} else {
		n, err := strconv.ParseInt(w[0], 10, 64)
		if err != nil {
			return "", err
		}
		r = newSnapshot(h.c, tso.Timestamp(n))
	}
	ctx, cancel := context.WithTimeout(h.ctx, 50*time.Millisecond)
	defer cancel()
	v, err := r.Get(ctx, cell(w[1], w[2]))
	if err != nil {
		return "", err
	}
	return string(v) + "\n", nil
}

// phase drives one phase of a commit by itself.
func (h *history) phase(cmd string, w []string) (string, error) {
	name := w[0]
	cm := h.commit[name]
	if cm == nil {
		tx := h.txns[name]
		cm = &commit{c: h.c, schema: h.c.catalog.Load(), startTS: tx.snap.ts, begun: tx.begun, outcome: map[*rowWrites]prewriteOutcome{}}
		if err := cm.group(tx.order, tx.erase); err != nil {
			return "", err
		}
		for c := range tx.weak {
			cm.weak = append(cm.weak, c)
		}
		cm.until = time.Now().Add(h.c.store.timing.RequestLifetime)
		h.commit[name] = cm
	}
	switch cmd {
	case "prewrite": // of all rows, or of the named ones
		for _, rw := range cm.rows {
			if len(w) == 1 || slices.Contains(w[1:], rw.row) {
				if err := cm.prewriteRow(h.ctx, rw); err != nil {
					return "", err
				}
			}
		}
		return "", nil
	case "timestamp":
		ts, err := h.c.next(h.ctx)
		h.ts[name] = ts
		return fmt.Sprintf("commit timestamp %d\n", ts), err
	case "commit-primary":
		if err := cm.notifyWeak(h.ctx, h.ts[name]); err != nil {
			return "", err
		}
		err := cm.commitPrimary(h.ctx, h.ts[name])
		h.c.fates.Purge() // what another client would know
		return "", err
	default:
		cm.phaseTwo(h.ctx, h.ts[name])
		return "", h.c.Flush(h.ctx)
	}
}

func (h *history) pending() (string, error) {
	var b strings.Builder
	for p, err := range h.c.ScanPending(h.ctx, "t", All()) {
		if err != nil {
			return "", err
		}
		for _, n := range p.Notified {
			fmt.Fprintf(&b, "notify %s/%s @%d\n", p.Row, n.Cell.Column, n.Timestamp)
		}
		for _, l := range p.Locks {
			fmt.Fprintf(&b, "lock %s/%s @%d primary %s/%s\n", p.Row, visibleName(l.Cell.Column), l.StartTS, l.Primary.Row, visibleName(l.Primary.Column))
		}
		for _, c := range p.Corrupt {
			fmt.Fprintf(&b, "corrupt %s/%s\n", c.Row, c.Column)
		}
	}
	return b.String() + "end\n", nil
}

func (h *history) resolve(w []string) (string, error) {
	for p, err := range h.c.ScanPending(h.ctx, "t", Row(w[0])) {
		if err != nil {
			return "", err
		}
		for _, l := range p.Locks {
			if l.Cell.Column == w[1] {
				r, err := h.c.ResolveLock(h.ctx, l)
				return r.String() + "\n", err
			}
		}
	}
	return "no lock\n", nil
}

func (h *history) raw(w []string) error {
	ts, err := strconv.ParseInt(w[3], 10, 64)
	if err != nil {
		return err
	}
	mut := bigtable.NewMutation()
	mut.Set(w[0], w[2], bigtable.Timestamp(ts), []byte(w[4]))
	return h.c.store.table("t").Apply(h.ctx, w[1], mut)
}

// visibleName spells a reserved column as the paper does: c:ack_O.
func visibleName(column string) string {
	if rest, ok := strings.CutPrefix(column, reserved+"ack\x00"); ok {
		observer, col, _ := strings.Cut(rest, "\x00")
		return col + ":ack_" + observer
	}
	return column
}

// dump prints the table as in Figure 4 of the paper: a line a timestamp, newest first.
func (h *history) dump() (string, error) {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "cell\tts\tdata\tlock\twrite\tnotify\t")
	err := h.c.store.table("t").ReadRows(h.ctx, bigtable.InfiniteRange(""), func(row bigtable.Row) bool {
		type at struct {
			column string
			ts     bigtable.Timestamp
		}
		cells := map[at]map[string]string{}
		for family, items := range row {
			for _, it := range items {
				k := at{strings.TrimPrefix(it.Column, family+":"), it.Timestamp}
				if cells[k] == nil {
					cells[k] = map[string]string{}
				}
				cells[k][family] = describeCell(family, it)
			}
		}
		keys := make([]at, 0, len(cells))
		for k := range cells {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b at) int {
			if c := strings.Compare(a.column, b.column); c != 0 {
				return c
			}
			return int(b.ts - a.ts)
		})
		for _, k := range keys {
			fmt.Fprintf(tw, "%s/%s\t%d:\t%s\t%s\t%s\t%s\t\n", row.Key(), visibleName(k.column), k.ts/1000,
				cells[k][dataFamily], cells[k][lockFamily], cells[k][writeFamily], cells[k][notifyFamily])
		}
		return true
	})
	tw.Flush()
	lines := strings.Split(b.String(), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n"), err
}

func describeCell(family string, it bigtable.ReadItem) string {
	switch family {
	case dataFamily:
		return string(it.Value)
	case notifyFamily:
		return "dirty"
	case writeFamily:
		w, err := decodeWrite(it.Timestamp, it.Value)
		switch {
		case err != nil:
			return "?"
		case w.kind == kindRollback:
			return "rolled back"
		}
		return fmt.Sprintf("%s @ %d", map[kind]string{kindPut: "data", kindDelete: "delete", kindLock: "lock"}[w.kind], w.startTS)
	default:
		l, err := decodeLock(it.Timestamp, it.Value)
		if err != nil {
			return "?"
		}
		column := strings.TrimPrefix(it.Column, family+":")
		if l.primary == cell(it.Row, column) {
			return "I am primary"
		}
		return "primary @ " + l.primary.Row + "." + visibleName(l.primary.Column)
	}
}
