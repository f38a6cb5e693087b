package emulator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"cloud.google.com/go/bigtable/bttest"
	"pgregory.net/rapid"
)

// Whatever ranges of columns a filter ends with, the answer equals the bare emulator's.
func TestColumnsEqualTheWhole(t *testing.T) {
	t.Parallel()
	bare, err := bttest.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bare.Close)
	ours := start(t, withLimits(3, 900))
	var clients []btpb.BigtableClient
	for _, addr := range []string{bare.Addr, ours.Addr()} {
		opts := Connect(addr)
		createTable(t, opts, "t", "f", "g", "none")
		tbl := openClient(t, opts).Open("t")
		for row := range 8 {
			m := bigtable.NewMutation()
			for i := range 3 + row*4 { // the first rows lack what most ranges are of
				m.Set(string("fg"[i%2]), string(rune('a'+i/4)), bigtable.Timestamp(1000*(1+i%4)), fmt.Append(nil, i))
			}
			if err := tbl.Apply(t.Context(), rowKey(row), m); err != nil {
				t.Fatal(err)
			}
		}
		clients = append(clients, btpb.NewBigtableClient(dial(t, addr)))
	}
	bound := rapid.SampledFrom([]string{"", "a", "a\x00", "b", "c", "c\x00", "d", "f", "z"})
	columns := rapid.Custom(func(t *rapid.T) *btpb.RowFilter {
		r := &btpb.ColumnRange{FamilyName: rapid.SampledFrom([]string{"f", "g", "none"}).Draw(t, "family")}
		switch from := []byte(bound.Draw(t, "from")); rapid.IntRange(0, 5).Draw(t, "start") {
		case 0:
		case 1:
			r.StartQualifier = &btpb.ColumnRange_StartQualifierOpen{StartQualifierOpen: from}
		default:
			r.StartQualifier = &btpb.ColumnRange_StartQualifierClosed{StartQualifierClosed: from}
		}
		switch to := []byte(bound.Draw(t, "to")); rapid.IntRange(0, 5).Draw(t, "end") {
		case 0:
		case 1:
			r.EndQualifier = &btpb.ColumnRange_EndQualifierClosed{EndQualifierClosed: to}
		default:
			r.EndQualifier = &btpb.ColumnRange_EndQualifierOpen{EndQualifierOpen: to}
		}
		return &btpb.RowFilter{Filter: &btpb.RowFilter_ColumnRangeFilter{ColumnRangeFilter: r}}
	})
	var apart []*btpb.RowFilter // ranges that share no cell, as a client of ours sends
	for _, family := range []string{"f", "g"} {
		for _, c := range []string{"a", "b", "d", "f"} {
			apart = append(apart, &btpb.RowFilter{Filter: &btpb.RowFilter_ColumnRangeFilter{ColumnRangeFilter: &btpb.ColumnRange{
				FamilyName:     family,
				StartQualifier: &btpb.ColumnRange_StartQualifierClosed{StartQualifierClosed: []byte(c)},
				EndQualifier:   &btpb.ColumnRange_EndQualifierOpen{EndQualifierOpen: []byte(c + "\x00")},
			}}})
		}
	}
	ranges := rapid.OneOf(rapid.SliceOfN(columns, 0, 4),
		rapid.SliceOfNDistinct(rapid.SampledFrom(apart), 2, 5, func(f *btpb.RowFilter) string { return f.String() }))
	before := rapid.SampledFrom([]*btpb.RowFilter{
		{Filter: &btpb.RowFilter_CellsPerColumnLimitFilter{CellsPerColumnLimitFilter: 1}},
		{Filter: &btpb.RowFilter_StripValueTransformer{StripValueTransformer: true}},
		{Filter: &btpb.RowFilter_TimestampRangeFilter{TimestampRangeFilter: &btpb.TimestampRange{EndTimestampMicros: 3000}}},
	})
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		chain := append(rapid.SliceOfN(before, 0, 2).Draw(t, "before"), &btpb.RowFilter{Filter: &btpb.RowFilter_Interleave_{
			Interleave: &btpb.RowFilter_Interleave{Filters: ranges.Draw(t, "ranges")},
		}})
		req := &btpb.ReadRowsRequest{
			TableName: fullName("t"),
			Filter:    &btpb.RowFilter{Filter: &btpb.RowFilter_Chain_{Chain: &btpb.RowFilter_Chain{Filters: chain}}},
			RowsLimit: rapid.SampledFrom([]int64{0, 0, 0, 2}).Draw(t, "limit"),
			Reversed:  rapid.Bool().Draw(t, "reversed"),
		}
		if _, _, ok := lateColumns(req.Filter); ok {
			taken++
		}
		flags := &btpb.FeatureFlags{ReverseScans: true, LastScannedRowResponses: rapid.Bool().Draw(t, "scanned")}
		want, wantErr := readAll(t, clients[0], req, flags)
		got, gotErr := readAll(t, clients[1], req, flags)
		if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Fatalf("error %v, want %v", gotErr, wantErr)
		}
		// Who asked for it hears of the last row that a page has kept back, the bare emulator's
		// client of each.
		cells := func(lines []string) []string {
			return slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "scanned ") })
		}
		if got, want := cells(got), cells(want); !slices.Equal(got, want) {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
	if taken == 0 {
		t.Error("no filter had ranges of columns alone in the end")
	}
}
