package gc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Rows as text, and what of them is garbage. A row is a line for each column: its name, then cells.
//
//	data@3            a version of data
//	lock@3            a lock
//	put@5=3           a put record at 5 of the transaction that began at 3; del and lck (a lock
//	                  record) likewise
//	mark@3            the rollback marker of 3
//
// ack:O:c is the acknowledgment of observer O on column c.
func TestCollectible(t *testing.T) {
	datadriven.Walk(t, "testdata/collectible", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var watermark int64
			d.ScanArgs(t, "mark", &watermark)
			row := parseRow(t, d.Input)
			return describe(collectible(row, tso.Timestamp(watermark)))
		})
	})
}

func parseRow(t *testing.T, text string) layout.RowVersions {
	rv := layout.RowVersions{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		column := words[0]
		if rest, ok := strings.CutPrefix(column, "ack:"); ok {
			observer, of, _ := strings.Cut(rest, ":")
			column = layout.AckColumn(of, observer)
		}
		v := new(layout.Versions)
		rv[column] = v
		for _, word := range words[1:] {
			parseVersions(v, t, word)
		}
		sortVersions(v)
	}
	return rv
}

// sortVersions puts the newest first, as Bigtable does.
func sortVersions(v *layout.Versions) {
	slices.SortFunc(v.Writes, func(a, b layout.WriteRecord) int { return cmp.Compare(b.CommitTS, a.CommitTS) })
	slices.SortFunc(v.Data, func(a, b layout.DataVersion) int { return cmp.Compare(b.StartTS, a.StartTS) })
}

func parseVersions(v *layout.Versions, t *testing.T, word string) {
	kinds := map[string]layout.Kind{"put": layout.KindPut, "del": layout.KindDelete, "lck": layout.KindLock}
	what, rest, _ := strings.Cut(word, "@")
	var at, start tso.Timestamp
	if _, err := fmt.Sscanf(rest, "%d=%d", &at, &start); err != nil {
		if _, err := fmt.Sscanf(rest, "%d", &at); err != nil && what != "corrupt" {
			t.Fatalf("%q: %v", word, err)
		}
	}
	switch what {
	case "data":
		v.Data = append(v.Data, layout.DataVersion{StartTS: at})
	case "lock":
		v.Locks = append(v.Locks, layout.LockRecord{StartTS: at})
	case "mark":
		v.Writes = append(v.Writes, layout.WriteRecord{CommitTS: at, StartTS: at, Kind: layout.KindRollback})
	case "corrupt":
		v.Corrupt = model.ErrCorrupt
	default:
		if kinds[what] == 0 {
			t.Fatalf("what is %q?", word)
		}
		v.Writes = append(v.Writes, layout.WriteRecord{CommitTS: at, StartTS: start, Kind: kinds[what]})
	}
}

func describe(g rowGarbage) string {
	var b strings.Builder
	line := func(prefix string, e erasure) {
		column := e.column
		if of, _, ok := layout.Acknowledged(column); ok {
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
	for _, v := range g.tombstones {
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
