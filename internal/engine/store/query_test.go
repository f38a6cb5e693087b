package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// storedRow is a row with cells of every sort, a line for each column of a family: versions and
// values. ack and trace stand for reserved columns.
const storedRow = `
lock   a      7=lock7 3=lock3
lock   b      9=lock9
write  a      8=~8 6=~5 4=~3
write  b      4=~2
write  ack    10=~9 5=~4
write  trace  12=~12 3=~3
data   a      5=five 3=three 1=one
data   b      2=two
notify a      6 4
notify b      4
notify ack    2
`

// storedMeta is a meta row; a number is a timestamp in 8 bytes, its first 16 in a hold.
const storedMeta = `
meta safepoint 1=#50
meta mark      1=#40
meta hold:a    1=#70
meta hold:b    1=#30
meta version   2=new 1=old
`

// storedJournal is the header of a stream whose older versions Bigtable has not removed yet.
const storedJournal = `
journal session 1=new
journal low     7= 5=
`

// reservedColumns are the columns for which the words ack and trace stand.
var reservedColumns = map[string]string{"ack": layout.AckColumn("a", "O"), "trace": layout.TracePrefix + "poke"}

func (s bareStore) plantRow(t *testing.T, table, cells string) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(cells)) {
		words := strings.Fields(line)
		column := words[1]
		if r, ok := reservedColumns[column]; ok {
			column = r
		}
		for _, version := range words[2:] {
			var ts tso.Timestamp
			at, value, _ := strings.Cut(version, "=")
			fmt.Sscan(at, &ts)
			s.plant(t, table, "r", words[0], column, ts, storedValue(value))
		}
	}
}

// storedValue spells ~5 as the record of transaction 5, and #5 as the timestamp 5.
func storedValue(word string) []byte {
	var ts tso.Timestamp
	if n, ok := strings.CutPrefix(word, "~"); ok {
		fmt.Sscan(n, &ts)
		return layout.EncodeWrite(ts, layout.KindLock)
	}
	if n, ok := strings.CutPrefix(word, "#"); ok {
		fmt.Sscan(n, &ts)
		return encoded(ts)
	}
	return []byte(word)
}

// wanted spells cells as the row above does: family:column@version, with = where the value comes
// too.
func wanted(words string) (out []string) {
	for _, cell := range strings.Fields(words) {
		at, value, ok := strings.Cut(cell, "=")
		for word, column := range reservedColumns {
			at = strings.Replace(at, ":"+word+"@", ":"+column+"@", 1)
		}
		if ok {
			at += "=" + string(storedValue(value))
		}
		out = append(out, at)
	}
	slices.Sort(out)
	return out
}

// oneCell stands for any cell, without its value: the store may choose.
const oneCell = "one"

func rowsNamed(names []string) (out catalog.Ranges) {
	for _, name := range names {
		out = append(out, model.Row(name))
	}
	return out
}

// TestQueriesMatchTheEmulator asks Google's emulator for every shape of query, and evaluates it
// here.
func TestQueriesMatchTheEmulator(t *testing.T) {
	t.Parallel()
	s := newBareStore(t)
	s.plantRow(t, "t", storedRow)
	s.plantRow(t, metaTable, storedMeta)
	s.plantRow(t, journalTable, storedJournal)
	many := make([]string, 20)
	for i := range many {
		many[i] = fmt.Sprint("never-", i)
	}
	stored := map[string][]layout.Item{}
	for _, table := range []string{"t", metaTable, journalTable} {
		r, err := s.google.table(table).ReadRow(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		stored[table] = rowOf(r).Items
	}
	covered := map[Shape]bool{}
	for _, c := range []struct {
		name  string
		query Query
		want  string
	}{
		{"newest of a column", Newest([]string{"a"}, 0, 1), "lock:a@7=lock7 write:a@8=~8 data:a@5=five"},
		{"newest at 5", Newest([]string{"a"}, 5, 1), "lock:a@3=lock3 write:a@4=~3 data:a@5=five"},
		{"newest 2 at 6", Newest([]string{"a", "b"}, 6, 2), "lock:a@3=lock3 write:a@6=~5 write:a@4=~3 write:b@4=~2 data:a@5=five data:a@3=three data:b@2=two"},
		{"newest of many columns", Newest(append(many, "b"), 4, 1), "write:b@4=~2 data:b@2=two notify:b@4"},
		{"newest of all columns at 2", Newest(nil, 2, 1), "data:a@1=one data:b@2=two notify:ack@2"},
		{"newest changes of a column", Newest([]string{"a"}, 0, 1).OnlyChanges(), "lock:a@7=lock7 data:a@5=five"},
		{"newest changes of all columns", Newest(nil, 5, 1).OnlyChanges(), "lock:a@3=lock3 data:a@5=five data:b@2=two"},
		{"changes", Changes([]string{"a", "b"}, 9), ""},
		{"newest in ranges", NewestIn(catalog.Ranges{model.Prefix("a"), model.Row("c")}, 0, 1), "lock:a@7=lock7 write:a@8=~8 data:a@5=five"},
		{"newest 2 in ranges at 6", NewestIn(catalog.Ranges{model.Row("a"), model.Between("aa", "")}, 6, 2), "lock:a@3=lock3 write:a@6=~5 write:a@4=~3 write:b@4=~2 data:a@5=five data:a@3=three data:b@2=two"},
		{"newest in a range with reserved columns", NewestIn(catalog.Ranges{model.Between("", "a")}, 11, 1), "write:ack@10=~9 write:trace@3=~3"},
		{"newest in ranges without columns", NewestIn(catalog.Ranges{model.Between("aa", "b"), model.Between("b\x00", "")}, 0, 1), ""},
		{"newest in many ranges", NewestIn(catalog.Union(slices.Concat(rowsNamed(many), catalog.Ranges{model.Row("a"), model.Between("b", "c")})...), 7, 1), "lock:a@7=lock7 write:a@6=~5 write:b@4=~2 data:a@5=five data:b@2=two"},
		{"newest in groups of ranges and one", NewestIn(catalog.Union(append(rowsNamed(many), model.Row("z"))...), 0, 1), ""},
		{"whole row at 2", WholeRow(2, 1), "data:a@1=one data:b@2=two notify:ack@2"},
		{"whole row", WholeRow(0, 1), "lock:a@7=lock7 lock:b@9=lock9 write:a@8=~8 write:b@4=~2 write:ack@10=~9 write:trace@12=~12 data:a@5=five data:b@2=two notify:a@6 notify:b@4 notify:ack@2"},
		{"a version of data", Data(Version{"a", 3}), "data:a@3=three"},
		{"versions of data", Data(Version{"a", 3}, Version{"b", 2}, Version{"b", 3}), "data:a@3=three data:b@2=two"},
		{"a version that is missing", Data(Version{"a", 4}), ""},
		{"has data", HasData("a", 3), "data:a@3"},
		{"has no data", HasData("a", 2), ""},
		{"held lock", HeldLock("a", 7), "lock:a@7=lock7"},
		{"another's lock", HeldLock("b", 7), ""},
		{"record", Record("a", 5), "write:a@6=~5"},
		{"marker", Record("a", 8), "write:a@8=~8"},
		{"no record", Record("a", 6), ""},
		{"primary with a record and a lock", Primary("a", 3), "lock:a@3=lock3 write:a@4=~3"},
		{"primary with a lock", Primary("a", 7), "lock:a@7=lock7"},
		{"primary with a record", Primary("a", 5), "write:a@6=~5"},
		{"conflict", Conflict([]string{"a"}, 7, false), "lock:a@3=lock3 write:a@8=~8"},
		{"conflict at first", Conflict([]string{"a"}, 7, true), "lock:a@7=lock7 lock:a@3=lock3 write:a@8=~8"},
		{"conflict of two", Conflict([]string{"a", "b"}, 9, false), "lock:a@7=lock7 lock:a@3=lock3"},
		{"conflict of two at first", Conflict([]string{"a", "b"}, 9, true), "lock:a@7=lock7 lock:a@3=lock3 lock:b@9=lock9"},
		{"conflict of a span", ConflictSpan("a", "b", 4, false), "lock:a@7=lock7 lock:a@3=lock3 lock:b@9=lock9 write:a@8=~8 write:a@6=~5 write:a@4=~3 write:b@4=~2"},
		{"conflict of a span at first", ConflictSpan("aa", "b", 9, true), "lock:b@9=lock9"},
		{"no notify", AnyNotify("c"), ""},
		{"any notify", AnyNotify("a"), "notify:a@6 notify:a@4"},
		{"pending", Pending(), "lock:a@7=lock7 lock:b@9=lock9 notify:a@6 notify:b@4 notify:ack@2"},
		{"pending up to 5", PendingUpTo(5, 1), "lock:a@7=lock7 lock:a@3=lock3 lock:b@9=lock9 notify:a@4 notify:b@4 notify:ack@2"},
		{"pending up to 6", PendingUpTo(6, 2), "lock:a@7=lock7 lock:a@3=lock3 lock:b@9=lock9 notify:a@6 notify:a@4 notify:b@4 notify:ack@2"},
		{"pending up to 1", PendingUpTo(1, 2), "lock:a@7=lock7 lock:a@3=lock3 lock:b@9=lock9 notify:ack@2"},
		{"written since 6", WrittenSince(6), "write:a@8 write:ack@10 write:trace@12"},
		{"all locks", AllLocks(), "lock:a@7=lock7 lock:a@3=lock3 lock:b@9=lock9"},
		{"locks at 0", Locks(0), ""},
		{"locks before 0", Locks(-1), ""},
		{"locks long before 0", Locks(math.MinInt64), ""},
		{"locks at 7", Locks(7), "lock:a@7=lock7 lock:a@3=lock3"},
		{"garbage", Garbage(), "lock:a@7=lock7 lock:a@3=lock3 lock:b@9=lock9 write:a@8=~8 write:a@6=~5 write:a@4=~3 write:b@4=~2 write:ack@10=~9 write:ack@5=~4 write:trace@12=~12 write:trace@3=~3 data:a@5 data:a@3 data:a@1 data:b@2"},
		{"exported at 5", Exported(5, false), "lock:a@3=lock3 write:a@4=~3 write:b@4=~2 write:ack@5=~4 write:trace@3=~3 data:a@5=five data:b@2=two notify:a@4 notify:b@4 notify:ack@2"},
		{"exported at 5 where observed", Exported(5, true), "lock:a@3=lock3 write:a@4=~3 write:b@4=~2 write:ack@5=~4 write:ack@10 write:trace@3=~3 data:a@5=five data:b@2=two notify:a@4 notify:b@4 notify:ack@2"},
		{"weak at 5", Weak(5), "notify:a@4 notify:b@4 notify:ack@2 write:trace@12=~12"},
		{"records", Records("a", 7, 1), "write:a@6=~5"},
		{"2 records", Records("a", 7, 2), "write:a@6=~5 write:a@4=~3"},
		{"records and locks", RecordsAndLocks([]string{"a", "b"}, 1), "lock:a@7=lock7 lock:b@9=lock9 write:a@8=~8 write:b@4=~2"},
		{"inspected", Inspected(nil, 1, 9), "lock:a@7=lock7 lock:b@9=lock9 write:a@8=~8 write:b@4=~2 write:ack@10=~9 write:trace@12=~12 data:a@5 data:b@2 notify:a@6 notify:b@4 notify:ack@2"},
		{"inspected column", Inspected([]string{"b", reservedColumns["ack"]}, 9, 9), "lock:b@9=lock9 write:b@4=~2 write:ack@10=~9 write:ack@5=~4 write:trace@12=~12 write:trace@3=~3 data:b@2 notify:b@4 notify:ack@2"},
		{"inspected cells", Inspected([]string{"a"}, 9, 1), "lock:a@7=lock7 write:ack@10=~9 data:a@5 notify:ack@2"},
		{"anything", Anything(), oneCell},
		{"history", History(), "lock:a@7=lock7 lock:a@3=lock3 lock:b@9=lock9 write:a@8=~8 write:a@6=~5 write:a@4=~3 write:b@4=~2 write:ack@10=~9 write:ack@5=~4 write:trace@12=~12 write:trace@3=~3 data:a@5 data:a@3 data:a@1 data:b@2 notify:a@6 notify:a@4 notify:b@4 notify:ack@2"},
		{"changed from 4 to 6", Changed(nil, 4, 6), "data:a@5=five lock:a@3=lock3 write:a@6=~5 write:a@4=~3 write:b@4=~2 write:ack@5=~4"},
		{"changed of one column", Changed([]string{"a"}, 5, 8), "data:a@5=five lock:a@7=lock7 lock:a@3=lock3 write:a@8=~8 write:a@6=~5"},
		{"changed records of many columns", ChangedRecords([]string{"a", "x", "y", "z", "zz"}, 4, 6), "lock:a@3=lock3 write:a@6=~5 write:a@4=~3"},
		{"records from 4 to 6", RecordsFrom(4, 6), "write:a@6=~5 write:a@4=~3 write:b@4=~2 write:ack@5=~4"},

		{"all cells", Cells("", 0), "meta:safepoint@1=#50 meta:mark@1=#40 meta:hold:a@1=#70 meta:hold:b@1=#30 meta:version@2=new"},
		{"cells under a prefix", Cells("hold:", 0), "meta:hold:a@1=#70 meta:hold:b@1=#30"},
		{"one cell under a prefix", Cells("hold:", 1), "meta:hold:a@1=#70"},
		{"cells of the journal", JournalCells(), "journal:session@1=new journal:low@7"},
		{"cell exists", CellExists("mark"), "meta:mark@1=#40"},
		{"cell does not exist", CellExists("mar"), ""},
		{"cell is", CellIs("version", []byte("new")), "meta:version@2=new"},
		{"cell is something longer", CellIs("version", []byte("ne")), ""},
		{"cell begins", CellBegins("version", []byte("ne")), "meta:version@2=new"},
		{"cell begins with all of it", CellBegins("version", []byte("new")), "meta:version@2=new"},
		{"cell begins with more", CellBegins("version", []byte("news")), ""},
		{"cell begins with something else", CellBegins("version", []byte("nd")), ""},
		{"cell at least", CellAtLeast("mark", 40), "meta:mark@1=#40"},
		{"cell less", CellAtLeast("mark", 41), ""},
		{"either cell", EitherCell("mark", "none"), "meta:mark@1=#40"},
		{"neither cell", EitherCell("non", "none"), ""},
		{"safepoint refused by itself", SafepointRefused("safepoint", "hold:", 29), "meta:safepoint@1=#50"},
		{"safepoint refused by a hold", SafepointRefused("safepoint", "hold:", 50), "meta:hold:b@1=#30"},
		{"safepoint refused by a hold at it", SafepointRefused("none", "hold:", 30), "meta:hold:b@1=#30"},
		{"safepoint not refused", SafepointRefused("mark", "holds:", 40), ""},
		{"hold refused by the safepoint", HoldRefused("safepoint", "hold:x", 50), "meta:safepoint@1=#50"},
		{"hold refused by itself", HoldRefused("safepoint", "hold:a", 51), "meta:hold:a@1=#70"},
		{"hold not refused", HoldRefused("safepoint", "hold:x", 51), ""},
	} {
		covered[c.query.Shape] = true
		table, family := "t", layout.DataFamily
		switch c.query.Shape.Table() {
		case model.JournalTable:
			table, family = journalTable, layout.JournalFamily
		case model.MetaTable:
			table, family = metaTable, layout.MetaFamily
		}
		r, err := s.ReadRow(t.Context(), table, "r", c.query)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := listed(r, true)
		if c.want == oneCell && len(got) == 1 && len(r.Items[0].Value) == 0 {
			got = wanted(oneCell)
		}
		slices.Sort(got)
		if want := wanted(c.want); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
		evaluated, most := c.query.Evaluate(stored[table])
		if local := listed(layout.Row{Items: evaluated}, true); c.want == oneCell {
			if most != 1 {
				t.Errorf("%s: evaluated here as at most %d cells", c.name, most)
			}
		} else if slices.Sort(local); !slices.Equal(local, wanted(c.want)) {
			t.Errorf("%s: evaluated here as %q, want %q", c.name, local, wanted(c.want))
		}
		if matched, err := s.CheckAndMutate(t.Context(), table, "r", c.query, nil, nothing(family)); err != nil || matched != (c.want != "") {
			t.Errorf("%s: as a predicate %v, %v", c.name, matched, err)
		}
	}
	for _, sh := range Shapes() {
		if !covered[sh] {
			t.Errorf("no query has shape %q", sh)
		}
	}
}

// nothing is a mutation that changes nothing of what is stored.
func nothing(family string) *Mutation {
	m := NewMutation(1)
	m.Erase(family, "none", 1)
	return m
}

// A filter tells records by their ninth byte, whatever bytes stand around it: what cannot be
// decoded is let through, for the reader to refuse.
func TestRecordsThatChangeMatchTheEmulator(t *testing.T) {
	t.Parallel()
	s := newBareStore(t)
	const at = tso.Timestamp(1 << 40)
	records := [][]byte{nil, []byte("short"), []byte("eight by")}
	for _, start := range []tso.Timestamp{at, at + 0x0a0a, at + 0x4c4c4c4c4c, at + 0xffff, at + 0x525252} {
		for _, kind := range []layout.Kind{layout.KindPut, layout.KindDelete, layout.KindLock, layout.KindRollback, 'X', '\n', 0, 0xff} {
			record := layout.EncodeWrite(start, kind)
			records = append(records, record, append(record[:9:9], "L\n\xffR"...))
		}
	}
	many := []string{"a", "b", "c", "d", "e", "f"}
	for i, record := range records {
		for j, column := range []string{"a", "b"} {
			s.plant(t, "t", "r", layout.WriteFamily, column, at+tso.Timestamp(i*(j+1)), record)
		}
	}
	for _, family := range []string{layout.LockFamily, layout.DataFamily, layout.NotifyFamily} {
		s.plant(t, "t", "r", family, "a", at+9, []byte("L"))
		s.plant(t, "t", "r", family, "b", at+9, []byte("R"))
	}
	all, err := s.google.table("t").ReadRow(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	for bound := at - 1; bound <= at+tso.Timestamp(2*len(records)); bound++ {
		for name, q := range map[string]Query{
			"changes of a column": Changes([]string{"a"}, bound), "changes of many": Changes(many, bound), "changes of all": Changes(nil, bound),
			"newest of a column": Newest([]string{"b"}, bound, 1).OnlyChanges(), "newest of many": Newest(many, bound, 2).OnlyChanges(),
			"newest of all": Newest(nil, 0, int(1+bound%64)).OnlyChanges(), "whole row": WholeRow(bound, 2).OnlyChanges(),
			"records and locks": RecordsAndLocks(many[:1+bound%6], int(1+bound%3)),
		} {
			r, err := s.ReadRow(t.Context(), "t", "r", q)
			if err != nil {
				t.Fatalf("%s at %d: %v", name, bound, err)
			}
			evaluated, _ := q.Evaluate(rowOf(all).Items)
			got, want := listed(r, true), listed(layout.Row{Items: evaluated}, true)
			slices.Sort(got)
			if slices.Sort(want); !slices.Equal(got, want) {
				t.Errorf("%s at %d: %q, want %q", name, bound-at, got, want)
			}
		}
	}
}

// A row with more cells than a narrow one has is cut off.
func TestWholeRowIsCutOff(t *testing.T) {
	t.Parallel()
	s := newBareStore(t)
	for i := range WholeRowCells + 1 {
		s.plant(t, "t", "r", layout.DataFamily, fmt.Sprintf("c%02d", i), 5, nil)
	}
	for n := 1; n < 3; n++ {
		if got, want := len(s.seen(t, "t", "r", WholeRow(0, n))), min(n*WholeRowCells, WholeRowCells+1); got != want {
			t.Errorf("%d cells for %d versions, want %d", got, n, want)
		}
	}
}

// Rows names the rows of a read, with bounds as model.Range has them.
func TestRowsAreBoundedAsRangesAre(t *testing.T) {
	t.Parallel()
	s := newBareStore(t)
	for _, row := range []string{"a", "ab", "b", "\xff"} {
		s.plant(t, "t", row, layout.DataFamily, "c", 5, nil)
	}
	for name, c := range map[string]struct {
		rows  Rows
		limit int
		want  string
	}{
		"all":           {Rows{}, 0, "a ab b \xff"},
		"ranges":        {Rows{Ranges: catalog.Ranges{model.Row("a"), model.Between("b", "")}}, 0, "a b \xff"},
		"ranges, empty": {Rows{Ranges: catalog.Ranges{model.Row("aa"), model.Between("c", "d")}}, 0, ""},
		"some of them":  {Rows{Ranges: catalog.Ranges{model.Between("", "ab"), model.Between("b", "")}}, 2, "a b"},
		"keys":          {Rows{Keys: []string{"b", "a", "none"}}, 0, "a b"},
		"from":          {From("ab"), 0, "ab b \xff"},
		"prefix":        {Prefix("a"), 0, "a ab"},
		"last prefix":   {Prefix("\xff"), 0, "\xff"},
		"at most":       {Rows{}, 2, "a ab"},
		"prefix of all": {Prefix(""), 1, "a"},
	} {
		var got []string
		err := s.ReadRows(context.Background(), "t", c.rows, Anything(), c.limit, func(r layout.Row) bool {
			got = append(got, r.Key)
			return true
		})
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}
