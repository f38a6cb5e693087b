package history

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/gopercolator/percolator/tso"
)

// TestCheckFindsEachAnomaly runs the histories in testdata: legal ones, and one for each anomaly. A
// history is a line for each transaction:
//
//	T1 10-20 @1,2: r(x)=nil w(x)=1     start and commit timestamp, and real times, if they matter
//	T2 30: s(a..d)=a:1,b:2             it wrote nothing; a scan of rows a ≤ row < d
//	T3 aborted 40: w(x)=5              or unknown; "locking" says LockReads, "asof" and "stale" are
//	                                   snapshots of the past, the latter of none before it began
//
// Operations: r(x)=v reads, r(x)=v@20 is told the commit timestamp, r(x)=nil finds nothing; w(x)=v,
// d(x) and l(x) write, delete and lock; has(x) is told that there is a value; i(v..w)=x:v scans an
// index; run(o,x,20) makes it a run of observer o for the change of x at 20; poke(x) notifies
// weakly; broken(text); upto(20) is an operator who deletes what had committed by then. add(k,5)
// contributes to a total, and sum(k)=5 finds it; export(p,0)=v adds an entry to a partition. In
// values _ stands for a blank. A line "record x 10-20" or "marker x 10" is of the raw tables, and
// "delivered p 10.0=v@20,30.0=v@40" a call of a receiver. "watches from 10" is a consumer that
// begins to watch everything there, and "watches to 40 x=1@10-20 y=nil@30-40" what it was told
// before it came to 40.
func TestCheckFindsEachAnomaly(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			h := parse(t, d.Input)
			rules := Rules{}
			for _, a := range d.CmdArgs {
				switch a.Key {
				case "lists":
					rules.List = func(Cell) bool { return true }
				case "maxage": // in milliseconds, of which a timestamp has many
					rules.MaxAge = time.Duration(number(t, a.Vals[0])) * time.Millisecond
				case "ttl": // likewise
					rules.TTL = func(Cell) time.Duration { return time.Duration(number(t, a.Vals[0])) * time.Millisecond }
				case "unique":
					rules.Unique = []Column{{"t", "c"}}
				case "observer":
					rules.Observers = append(rules.Observers, Observer{Name: a.Vals[0], Table: "t", Column: "c"})
				case "expired":
					rules.Observers = append(rules.Observers, Observer{Name: a.Vals[0], Table: "t", Column: "c", Expired: true})
				case "weak":
					rules.Observers = append(rules.Observers, Observer{Name: a.Vals[0], Table: "t", Column: "c", Weak: true})
				}
			}
			r := Check(h, rules)
			var out strings.Builder
			for _, a := range r.Anomalies {
				fmt.Fprintln(&out, a)
			}
			if r.Found() == 0 {
				fmt.Fprintf(&out, "legal: %d committed, %d aborted, %d resolved\n", r.Committed, r.Aborted, r.Resolved)
			}
			checkJoined(t, parse(t, d.Input), rules, r)
			return out.String()
		})
	})
}

// testCell is column c of a row; x.d is column d.
func testCell(name string) Cell {
	row, column, ok := strings.Cut(name, ".")
	if !ok {
		column = "c"
	}
	return Cell{"t", row, column}
}

// parse builds a history from its text.
func parse(t *testing.T, text string) *Recording {
	t.Helper()
	h := New()
	for line := range strings.Lines(text) {
		head, ops, _ := strings.Cut(strings.TrimSpace(line), ":")
		words := strings.Fields(head)
		if words[0] == "record" || words[0] == "marker" {
			start, commit, _ := strings.Cut(words[2], "-")
			h.Found(Record{Cell: testCell(words[1]), Start: number(t, start), Commit: number(t, commit), Marker: words[0] == "marker"})
			continue
		}
		if words[0] == "delivered" {
			h.Delivers(words[1], testDeliveries(t, words[2]))
			continue
		}
		if words[0] == "watches" {
			parseWatch(t, h, words[1:])
			continue
		}
		tx := h.Begin("c", "test")
		outcome, commit := Committed, tso.Timestamp(0)
		tx.began = 0
		var ended int64
		for _, w := range words[1:] {
			switch {
			case w == "aborted":
				outcome = Aborted
			case w == "unknown":
				outcome = Unknown
			case w == "locking":
				tx.LockReads()
			case w == "asof":
				tx.placed = true
			case w == "stale":
				tx.placed, tx.bounded = true, true
			case w[0] == '@':
				b, e, _ := strings.Cut(w[1:], ",")
				tx.began, ended = int64(number(t, b)), int64(number(t, e))
			default:
				s, c, _ := strings.Cut(w, "-")
				tx.start, commit = number(t, s), number(t, c)
			}
		}
		for o := range strings.FieldsSeq(ops) {
			addOp(t, tx, o)
		}
		tx.End(outcome, commit)
		tx.ended = ended
	}
	return h
}

func addOp(t *testing.T, tx *Txn, o string) {
	t.Helper()
	name, rest, _ := strings.Cut(o, "(")
	arg, result, _ := strings.Cut(rest, ")")
	result = strings.TrimPrefix(result, "=")
	result, at, _ := strings.Cut(result, "@")
	value := []byte(strings.ReplaceAll(result, "_", " "))
	if result == "nil" {
		value = nil
	}
	from, to, _ := strings.Cut(arg, "..")
	switch name {
	case "r":
		tx.ReadAt(testCell(arg), value, number(t, at))
	case "w":
		tx.Put(testCell(arg), value)
	case "d":
		tx.Delete(testCell(arg))
	case "l":
		tx.Lock(testCell(arg))
	case "has":
		tx.Present(testCell(arg))
	case "s":
		tx.Scan("t", from, to, nil, testEntries(result))
	case "i":
		tx.IndexScan("t", "c", from, to, testEntries(result))
	case "run":
		a := strings.Split(arg, ",")
		ts := number(t, a[2])
		tx.Observes(Run{Observer: a[0], Cell: testCell(a[1]), Change: ts, Weak: ts == 0})
	case "poke":
		tx.Notifies(testCell(arg))
	case "upto":
		tx.DeletesUpTo(number(t, arg))
	case "broken":
		tx.Broken("%s", arg)
	case "add":
		total, n, _ := strings.Cut(arg, ",")
		tx.Contributes(total, int64(number(t, n)))
	case "sum":
		tx.Total(arg, int64(number(t, result)))
	case "export":
		partition, seq, _ := strings.Cut(arg, ",")
		tx.Exports(partition, int(number(t, seq)), result)
	default:
		t.Fatalf("unknown operation %q", o)
	}
}

func testEntries(s string) (es []Entry) {
	for e := range strings.SplitSeq(s, ",") {
		if name, v, ok := strings.Cut(e, ":"); ok {
			es = append(es, Entry{Cell: testCell(name), Value: []byte(v)})
		}
	}
	return es
}

// parseWatch takes in a step of a watcher.
func parseWatch(t *testing.T, h *Recording, words []string) {
	t.Helper()
	position := number(t, words[1])
	if words[0] == "from" {
		h.WatchesFrom("w", []Column{{Table: "t"}}, position)
		return
	}
	var changes []WatchedChange
	for _, word := range words[2:] {
		name, rest, _ := strings.Cut(word, "=")
		value, times, _ := strings.Cut(rest, "@")
		start, commit, _ := strings.Cut(times, "-")
		ch := WatchedChange{Cell: testCell(name), Start: number(t, start), Commit: number(t, commit)}
		if value != "nil" {
			ch.Value = []byte(value)
		}
		changes = append(changes, ch)
	}
	h.Watches("w", changes, position)
}

func testDeliveries(t *testing.T, s string) (ds []Delivery) {
	t.Helper()
	for e := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(e, "=")
		start, seq, _ := strings.Cut(name, ".")
		what, commit, _ := strings.Cut(value, "@")
		ds = append(ds, Delivery{Start: number(t, start), Commit: number(t, commit), Seq: int(number(t, seq)), What: what})
	}
	return ds
}

func number(t *testing.T, s string) tso.Timestamp {
	t.Helper()
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return tso.Timestamp(n)
}
