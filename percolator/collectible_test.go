package percolator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/gopercolator/percolator/tso"
)

// Rows as text, and what of them is garbage. A row is a line for each column: its name, then cells.
//
//	data@3            a version of data
//	lock@3            a lock
//	put@5=3           a put record at 5 of the transaction that began at 3; del and lck (a lock record) likewise
//	mark@3            the rollback marker of 3
//
// ack:O:c is the acknowledgment of observer O on column c.
func TestCollectible(t *testing.T) {
	datadriven.Walk(t, "testdata/collectible", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var mark int64
			d.ScanArgs(t, "mark", &mark)
			row := parseRow(t, d.Input)
			return describe(collectible(row, tso.Timestamp(mark)))
		})
	})
}

func parseRow(t *testing.T, text string) rowVersions {
	rv := rowVersions{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		column := words[0]
		if rest, ok := strings.CutPrefix(column, "ack:"); ok {
			observer, of, _ := strings.Cut(rest, ":")
			column = ackColumn(of, observer)
		}
		v := new(versions)
		rv[column] = v
		for _, word := range words[1:] {
			v.parse(t, word)
		}
		v.sort()
	}
	return rv
}

// sort puts the newest first, as Bigtable does.
func (v *versions) sort() {
	slices.SortFunc(v.writes, func(a, b writeRecord) int { return cmp.Compare(b.commitTS, a.commitTS) })
	slices.SortFunc(v.data, func(a, b dataVersion) int { return cmp.Compare(b.startTS, a.startTS) })
}

func (v *versions) parse(t *testing.T, word string) {
	kinds := map[string]kind{"put": kindPut, "del": kindDelete, "lck": kindLock}
	what, rest, _ := strings.Cut(word, "@")
	var at, start tso.Timestamp
	if _, err := fmt.Sscanf(rest, "%d=%d", &at, &start); err != nil {
		if _, err := fmt.Sscanf(rest, "%d", &at); err != nil && what != "corrupt" {
			t.Fatalf("%q: %v", word, err)
		}
	}
	switch what {
	case "data":
		v.data = append(v.data, dataVersion{startTS: at})
	case "lock":
		v.locks = append(v.locks, lockRecord{startTS: at})
	case "mark":
		v.writes = append(v.writes, writeRecord{commitTS: at, startTS: at, kind: kindRollback})
	case "corrupt":
		v.corrupt = ErrCorrupt
	default:
		if kinds[what] == 0 {
			t.Fatalf("what is %q?", word)
		}
		v.writes = append(v.writes, writeRecord{commitTS: at, startTS: start, kind: kinds[what]})
	}
}

func describe(g rowGarbage) string {
	var b strings.Builder
	line := func(prefix string, e erasure) {
		column := e.column
		if of, ok := acknowledged(column); ok {
			column = "ack of " + of
		}
		if e.to == e.from+1 {
			fmt.Fprintf(&b, "%s %s@%d of %s\n", prefix, e.family, e.from, column)
		} else {
			fmt.Fprintf(&b, "%s %s before %d of %s (%d)\n", prefix, e.family, e.to, column, e.versions)
		}
	}
	for _, e := range g.erasures {
		line("erase", e)
	}
	for _, v := range g.vanishing {
		fmt.Fprintf(&b, "unless %s is notified\n", v.column)
		for _, e := range v.erasures {
			line("  erase", e)
		}
	}
	fmt.Fprintf(&b, "%d versions", versionsOf(g.erasures))
	if g.postponed > 0 {
		fmt.Fprintf(&b, ", %d postponed", g.postponed)
	}
	if len(g.corrupt) > 0 {
		fmt.Fprintf(&b, ", corrupt %q", g.corrupt)
	}
	b.WriteByte('\n')
	return b.String()
}
