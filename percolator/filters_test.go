package percolator

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// awkwardColumns would be other columns, or errors, in a regular expression that is not escaped.
var awkwardColumns = []string{"a", "b", "ab", "a.b", "axb", "a|b", ".*", ".+", "[a-b]", "^a$", `\`, `\x61`, `a\`, "\n", "a\nb", "\xff", "\xc3\x28", "ä", "\u65e5\u672c",
	"(?i)a", "A", "a{2}", "aa", "$", " ", ":", "a:b", "data:a", "\x01", "\x7f", "\x80", "Z9", "\\C", "\\Qa\\E"}

// matcher matches as Bigtable does: bytes, which are one character each, and the whole name.
type matcher struct{ re *regexp.Regexp }

func newMatcher(t interface{ Fatalf(string, ...any) }, p string) matcher {
	re, err := regexp.Compile("^(?:" + characters(p) + ")$")
	if err != nil {
		t.Fatalf("pattern %q: %v", p, err)
	}
	return matcher{re}
}

func (m matcher) MatchString(name string) bool { return m.re.MatchString(characters(name)) }

// characters makes a character of each byte.
func characters(b string) string {
	rs := make([]rune, len(b))
	for i := range len(b) {
		rs[i] = rune(b[i])
	}
	return string(rs)
}

func TestPatternMatchesExactlyTheNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.SampledFrom(awkwardColumns), anyBytes(1, 6))
		names := rapid.SliceOfN(name, 1, 5).Draw(t, "names")
		p := pattern(names)
		re := newMatcher(t, p)
		for _, n := range names {
			if !re.MatchString(n) {
				t.Errorf("%q does not match %q", p, n)
			}
		}
		if other := name.Draw(t, "other"); re.MatchString(other) != slices.Contains(names, other) {
			t.Errorf("%q matches %q, which is none of %q", p, other, names)
		}
		bound := 0
		for _, n := range names {
			bound += patternBytes(n)
		}
		if len(p) > bound {
			t.Errorf("the pattern of %q has %d bytes, more than the bound %d", names, len(p), bound)
		}
	})
}

func FuzzPattern(f *testing.F) {
	for i, c := range awkwardColumns {
		f.Add(c, awkwardColumns[(i+1)%len(awkwardColumns)], awkwardColumns[(i+7)%len(awkwardColumns)])
	}
	f.Fuzz(func(t *testing.T, a, b, other string) {
		re := newMatcher(t, pattern([]string{a, b}))
		if !re.MatchString(a) || !re.MatchString(b) || re.MatchString(other) != (other == a || other == b) {
			t.Errorf("the pattern of %q and %q: %v %v, and %v for %q", a, b, re.MatchString(a), re.MatchString(b), re.MatchString(other), other)
		}
	})
}

// bareTable is a table with our four families in an emulator.
func bareTable(t *testing.T) (context.Context, *store) {
	t.Helper()
	ctx, c := newBareClient(t)
	return ctx, c.store
}

func (s *store) plant(t *testing.T, ctx context.Context, row, family, column string, ts tso.Timestamp, value []byte) {
	t.Helper()
	mut := bigtable.NewMutation()
	mut.Set(family, column, cellTime(ts), value)
	if err := s.table("t").Apply(ctx, row, mut); err != nil {
		t.Fatal(err)
	}
}

// seen lists the cells that a filter lets through, as family:column@timestamp.
func (s *store) seen(t *testing.T, ctx context.Context, row string, f bigtable.Filter) []string {
	t.Helper()
	r, err := s.readRow(ctx, "t", row, f)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, family := range slices.Sorted(maps.Keys(r)) {
		for _, it := range r[family] {
			out = append(out, fmt.Sprintf("%s@%d", it.Column, it.Timestamp/1000))
		}
	}
	return out
}

// The emulator and the pattern agree for every column by itself, for pairs, and for the range that names one column.
func TestFiltersNameColumnsExactlyInTheEmulator(t *testing.T) {
	t.Parallel()
	ctx, s := bareTable(t)
	mut := bigtable.NewMutation()
	for _, c := range awkwardColumns {
		mut.Set(dataFamily, c, 1000, []byte(c))
	}
	if err := s.table("t").Apply(ctx, "r", mut); err != nil {
		t.Fatal(err)
	}
	check := func(what string, f bigtable.Filter, want ...string) {
		t.Helper()
		r, err := s.readRow(ctx, "t", "r", f)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		var got []string
		for _, it := range r[dataFamily] {
			got = append(got, string(it.Value))
		}
		slices.Sort(want)
		if want = slices.Compact(want); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	for i, c := range awkwardColumns {
		d := awkwardColumns[(i+5)%len(awkwardColumns)]
		check(fmt.Sprintf("pattern of %q", c), bigtable.ColumnFilter(pattern([]string{c})), c)
		check(fmt.Sprintf("pattern of %q and %q", c, d), bigtable.ColumnFilter(pattern([]string{c, d})), c, d)
		check(fmt.Sprintf("range of %q", c), oneColumn(dataFamily, c), c)
	}
	check("all", bigtable.ColumnFilter(pattern(awkwardColumns)), slices.Clone(awkwardColumns)...)
}

func TestTimestampFiltersAreInclusive(t *testing.T) {
	t.Parallel()
	ctx, s := bareTable(t)
	for ts := tso.Timestamp(4); ts <= 6; ts++ {
		s.plant(t, ctx, "r", dataFamily, "c", ts, nil)
	}
	for name, c := range map[string]struct {
		filter bigtable.Filter
		want   []string
	}{
		"from 5":    {from(5), []string{"data:c@6", "data:c@5"}},
		"up to 5":   {upTo(5), []string{"data:c@5", "data:c@4"}},
		"exactly 5": {exactly(5), []string{"data:c@5"}},
		"exactly 7": {exactly(7), nil},
	} {
		if got := s.seen(t, ctx, "r", c.filter); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The predicate of prewrite: any foreign lock, any record at or above start_ts, and not one's own lock (I2, I3, I4).
func TestConflictFilter(t *testing.T) {
	t.Parallel()
	ctx, s := bareTable(t)
	const start = 10
	for name, c := range map[string]struct {
		family   string
		column   string
		ts       tso.Timestamp
		conflict bool
	}{
		"a lock before":               {lockFamily, "c", start - 1, true},
		"one's own lock":              {lockFamily, "c", start, false},
		"a lock after":                {lockFamily, "c", start + 1, true},
		"a lock far before":           {lockFamily, "c", 1, true},
		"a lock far after":            {lockFamily, "c", tso.MaxTimestamp - 1, true},
		"a record before":             {writeFamily, "c", start - 1, false},
		"a record or marker at start": {writeFamily, "c", start, true},
		"a record after":              {writeFamily, "c", start + 1, true},
		"data after":                  {dataFamily, "c", start + 1, false},
		"a notification after":        {notifyFamily, "c", start + 1, false},
		"a lock on another column":    {lockFamily, "x", start - 1, false},
		"a record on another column":  {writeFamily, "cc", start + 1, false},
		"a lock on the second column": {lockFamily, "d.", start - 1, true},
	} {
		s.plant(t, ctx, name, c.family, c.column, c.ts, nil)
		for _, first := range []bool{true, false} {
			conflict := c.conflict || first && name == "one's own lock" // there is none before the first sending
			two := len(s.seen(t, ctx, name, conflictFilter([]string{"c", "d."}, start, first))) > 0
			if two != conflict {
				t.Errorf("%s: conflict %v for two columns, want %v (first sending: %v)", name, two, conflict, first)
			}
			one := len(s.seen(t, ctx, name, conflictFilter([]string{"c"}, start, first))) > 0
			if want := conflict && c.column == "c"; one != want {
				t.Errorf("%s: conflict %v for one column, want %v (first sending: %v)", name, one, want, first)
			}
		}
	}
}

// The predicate of every roll back finds a transaction's record wherever it is, and nobody else's (I8).
func TestStartFilter(t *testing.T) {
	t.Parallel()
	ctx, s := bareTable(t)
	s.plant(t, ctx, "r", writeFamily, "c", 5, encodeWrite(5, kindRollback))
	s.plant(t, ctx, "r", writeFamily, "c", 300, encodeWrite(255, kindPut))
	s.plant(t, ctx, "r", writeFamily, "c", 301, encodeWrite(256, kindLock))
	s.plant(t, ctx, "r", writeFamily, "c", 302, append(encodeWrite(257, kindDelete), "later fields"...))
	s.plant(t, ctx, "r", writeFamily, "d", 310, encodeWrite(258, kindPut))
	s.plant(t, ctx, "r", dataFamily, "c", 310, encodeWrite(258, kindPut))
	for start, want := range map[tso.Timestamp]string{5: "write:c@5", 255: "write:c@300", 256: "write:c@301", 257: "write:c@302", 258: "", 4: "", 6: "", 300: ""} {
		got := s.seen(t, ctx, "r", startFilter("c", start))
		if len(got) > 1 || (len(got) == 1) != (want != "") || (want != "" && got[0] != want) {
			t.Errorf("start timestamp %d: %q, want %q", start, got, want)
		}
	}
}

// A predicate as large as a prewrite makes it stays below Bigtable's 20 KB, whatever the columns.
func TestPredicatesStayBelowTheLimit(t *testing.T) {
	t.Parallel()
	long := func(i int) string {
		return fmt.Sprintf("%02d", i) + string(bytes.Repeat([]byte{0xff}, MaxColumnBytes-2))
	}
	rw := &rowWrites{}
	for i := range 20 {
		rw.writes = append(rw.writes, &write{cell: Cell{"t", "r", long(i)}, kind: kindPut})
	}
	for i := range 3000 {
		rw.writes = append(rw.writes, &write{cell: Cell{"t", "r", fmt.Sprint("c", i)}, kind: kindPut})
	}
	n := 0
	for _, chunk := range rw.chunks(false) {
		n += len(chunk)
		if size := filterSize(t, conflictFilter(columnsOf(chunk), 1<<40, false)); size > 20<<10 {
			t.Errorf("the predicate of %d columns has %d bytes", len(chunk), size)
		}
	}
	if n != len(rw.writes) {
		t.Errorf("the chunks hold %d of %d writes", n, len(rw.writes))
	}
	w := &rowWants{row: "r"}
	for i := range 20 {
		w.columns, w.index = append(w.columns, long(i)), append(w.index, i)
	}
	for _, part := range w.split() {
		if size := filterSize(t, snapshotFilter(part.columns, 1<<40, 1)); size > 20<<10 {
			t.Errorf("the filter of %d columns has %d bytes", len(part.columns), size)
		}
	}
	if size := filterSize(t, primaryFilter(long(0), 1<<40)); size > 20<<10 {
		t.Errorf("the filter of a primary has %d bytes", size)
	}
}

// filterSize is the encoded size of a predicate, as a request carries it.
func filterSize(t *testing.T, f bigtable.Filter) (size int) {
	t.Helper()
	stop := fmt.Errorf("seen")
	see := func(_ context.Context, _ string, req, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		if m, ok := req.(*btpb.CheckAndMutateRowRequest); ok {
			size = proto.Size(m.PredicateFilter)
		}
		return stop
	}
	bt, err := newBigtable(t.Context(), "p", "i", "", append(emulator.Connect("127.0.0.1:1"), option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(see))))
	if err != nil {
		t.Fatal(err)
	}
	defer bt.Close()
	mut := bigtable.NewMutation()
	mut.DeleteRow()
	if err := bt.Open("none").Apply(t.Context(), "r", bigtable.NewCondMutation(f, mut, nil)); err == nil || size == 0 {
		t.Fatalf("no request was seen: %v", err)
	}
	return size
}
