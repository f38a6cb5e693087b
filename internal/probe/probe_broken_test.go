package probe

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// wrongStandIns break one property each.
var wrongStandIns = []struct {
	line, name string
	breakIt    func(s *site)
}{
	{"identities", "a worker cannot connect", func(s *site) {
		s.rights["worker"] = emulator.Rights{Tables: s.rights["worker"].Tables}
	}},
	{"identities", "a worker writes every table", func(s *site) {
		s.rights["worker"] = emulator.Rights{Instance: emulator.Role("roles/bigtable.user"), Tables: s.rights["worker"].Tables}
	}},
	{"identities", "a reader writes", func(s *site) { s.rights["reader"] = s.rights["worker"] }},
	{"identities", "a batch job only reads", func(s *site) { s.rights["batch"] = s.rights["reader"] }},
	{"identities", "the oracle reads tables", func(s *site) { s.rights["oracle"] = s.rights["reader"] }},
	{"identities", "the oracle cannot write its record", func(s *site) { s.rights["oracle-record"] = s.rights["oracle"] }},
	{"identities", "schema removes tables", func(s *site) {
		s.rights["schema"] = emulator.Rights{Instance: append(slices.Clone(s.rights["schema"].Instance), "bigtable.tables.delete"), Tables: s.rights["schema"].Tables}
	}},
	{"identities", "schema cannot create tables", func(s *site) { s.rights["schema"] = s.rights["oracle-record"] }},
	{"missing-row", "a missing row counts as a match", func(s *site) {
		s.between = requests(func(req any) {
			if r, ok := req.(*btpb.CheckAndMutateRowRequest); ok && string(r.RowKey) == "missing-row" {
				r.PredicateFilter, r.TrueMutations, r.FalseMutations = nil, r.FalseMutations, r.TrueMutations
			}
		})
	}},
	{"missing-row", "a missing row is an error", func(s *site) {
		s.between = answer(func(r *btpb.CheckAndMutateRowRequest, _ any) (bool, error) {
			return false, map[bool]error{true: status.Error(codes.NotFound, "no such row")}[string(r.RowKey) == "missing-row"]
		})
	}},
	{"one-winner", "conditional mutations read, and then write", func(s *site) { s.between = unary(readThenWrite) }},
	{"cluster-routing", "several clusters apply conditional mutations", func(s *site) {
		s.profiles["anywhere"] = emulator.AppProfile{SingleCluster: true, TransactionalWrites: true}
	}},
	{"request-shapes", "ranges of columns include their end", func(s *site) {
		s.between = filters(func(f *btpb.RowFilter) {
			if r := f.GetColumnRangeFilter(); r != nil && len(r.GetEndQualifierOpen()) > 0 {
				r.EndQualifier = &btpb.ColumnRange_EndQualifierClosed{EndQualifierClosed: r.GetEndQualifierOpen()}
			}
		})
	}},
	{"request-shapes", "ranges of values include their end", func(s *site) {
		s.between = filters(func(f *btpb.RowFilter) {
			if r := f.GetValueRangeFilter(); r != nil && len(r.GetEndValueOpen()) > 0 {
				r.EndValue = &btpb.ValueRange_EndValueClosed{EndValueClosed: r.GetEndValueOpen()}
			}
		})
	}},
	{"request-shapes", "patterns know no bytes above 0x7f", func(s *site) {
		s.between = filters(func(f *btpb.RowFilter) {
			if p := f.GetColumnQualifierRegexFilter(); p != nil {
				f.Filter = &btpb.RowFilter_ColumnQualifierRegexFilter{ColumnQualifierRegexFilter: bytes.ReplaceAll(p, []byte(`\xe`), []byte(`\x6`))}
			}
		})
	}},
	{"request-shapes", "patterns match without their escapes", func(s *site) {
		s.between = filters(func(f *btpb.RowFilter) {
			if p := f.GetColumnQualifierRegexFilter(); p != nil {
				f.Filter = &btpb.RowFilter_ColumnQualifierRegexFilter{ColumnQualifierRegexFilter: bytes.ReplaceAll(p, []byte(`\x28`), []byte(`.`))}
			}
		})
	}},
	{"request-shapes", "values come where none are asked for", func(s *site) {
		s.between = filters(func(f *btpb.RowFilter) {
			if f.GetStripValueTransformer() {
				f.Filter = &btpb.RowFilter_PassAllFilter{PassAllFilter: true}
			}
		})
	}},
	{"request-shapes", "the limit of cells is one more", func(s *site) {
		s.between = filters(func(f *btpb.RowFilter) {
			if n := f.GetCellsPerRowLimitFilter(); n > 0 {
				f.Filter = &btpb.RowFilter_CellsPerRowLimitFilter{CellsPerRowLimitFilter: n + 1}
			}
		})
	}},
	{"request-shapes", "values are taken for UTF-8", func(s *site) {
		s.between = mutations(func(_ string, m *btpb.Mutation) *btpb.Mutation {
			if c := m.GetSetCell(); c != nil && c.FamilyName != "write" {
				c.Value = bytes.ToValidUTF8(c.Value, []byte("?"))
			}
			return m
		})
	}},
	{"torn-reads", "a row's mutations are applied one by one", func(s *site) { s.between = inHalves() }},
	{"rewritten-versions", "what was erased stays so", func(s *site) { s.between = buried() }},
	{"far-timestamps", "cells end with the year 9999", func(s *site) {
		s.between = mutations(func(_ string, m *btpb.Mutation) *btpb.Mutation {
			if c := m.GetSetCell(); c != nil {
				c.TimestampMicros = min(c.TimestampMicros, int64(lastOf9999)*1000)
			}
			return m
		})
	}},
	{"far-timestamps", "timestamps beyond the year 9999 are refused", func(s *site) {
		s.between = mutations(func(_ string, m *btpb.Mutation) *btpb.Mutation {
			if c := m.GetSetCell(); c.GetTimestampMicros() > int64(lastOf9999)*1000 {
				c.TimestampMicros = math.MaxInt64 // which is no multiple of 1000
			}
			return m
		})
	}},
	{"sizes", "row keys of any length", func(s *site) {
		s.between = answer(func(r *btpb.MutateRowRequest, _ any) (bool, error) { return len(r.RowKey) > 4<<10, nil })
	}},
	{"sizes", "shorter qualifiers", func(s *site) {
		s.between = answer(func(r *btpb.MutateRowRequest, _ any) (bool, error) {
			if len(r.Mutations[0].GetSetCell().GetColumnQualifier()) > 8<<10 {
				return false, status.Error(codes.InvalidArgument, "too long")
			}
			return false, nil
		})
	}},
	{"sizes", "any number of mutations", func(s *site) {
		s.between = requests(func(req any) {
			if r, ok := req.(*btpb.MutateRowRequest); ok {
				r.Mutations = r.Mutations[:min(len(r.Mutations), 100_000)]
			}
		})
	}},
	{"sizes", "filters of any size", func(s *site) {
		s.between = filters(func(f *btpb.RowFilter) {
			if v := f.GetValueRangeFilter().GetStartValueClosed(); len(v) > 20_000 {
				f.Filter = &btpb.RowFilter_BlockAllFilter{BlockAllFilter: true}
			}
		})
	}},
	{"sizes", "reads of any number of row keys", func(s *site) {
		s.between = requests(func(req any) {
			if r, ok := req.(*btpb.ReadRowsRequest); ok && len(r.GetRows().GetRowKeys()) > 128 {
				r.Rows.RowKeys = r.Rows.RowKeys[:128]
			}
		})
	}},
	{"missing-family", "another error", func(s *site) {
		s.between = answer(func(r *btpb.CheckAndMutateRowRequest, _ any) (bool, error) {
			return false, map[bool]error{true: status.Error(codes.FailedPrecondition, "something is missing")}[string(r.RowKey) == "missing-family"]
		})
	}},
	{"missing-family", "what can be applied is", func(s *site) {
		s.between = mutations(func(_ string, m *btpb.Mutation) *btpb.Mutation {
			if m.GetSetCell().GetFamilyName() == "none" {
				return nil
			}
			return m
		})
	}},
	{"progress", "a read that finds nothing says nothing", func(s *site) {
		s.onDisks()
		s.between = stream(nil, func(msg any) bool { return len(lastScanned(msg)) > 0 })
	}},
	{"progress", "a read has passed over what it has not", func(s *site) {
		s.onDisks()
		s.between = stream(nil, func(msg any) bool {
			if len(lastScanned(msg)) > 0 {
				msg.(*btpb.ReadRowsResponse).LastScannedRowKey = []byte("zzz")
			}
			return false
		})
	}},
	{"latency", "one operation is slow", func(s *site) {
		slow := new(clock)
		s.now = slow.now
		s.between = stream(func(msg any) {
			if _, ok := msg.(*btpb.SampleRowKeysRequest); ok {
				slow.ahead.Store(int64(30 * time.Second)) // once: the oracle is compared with this clock
			}
		}, nil)
	}},
	{"oracle", "its clock is an hour ahead", func(s *site) {
		s.Oracle = changed(s.Oracle, func(_ int64, ts tso.Timestamp) tso.Timestamp { return ts.Add(time.Hour) })
	}},
	{"oracle", "it repeats a timestamp", func(s *site) {
		var last atomic.Int64
		s.Oracle = changed(s.Oracle, func(n int64, ts tso.Timestamp) tso.Timestamp {
			if n == 500 {
				return tso.Timestamp(last.Load())
			}
			last.Store(int64(ts))
			return ts
		})
	}},
	{"oracle", "it steps back", func(s *site) {
		s.Oracle = changed(s.Oracle, func(n int64, ts tso.Timestamp) tso.Timestamp {
			if n == 3 {
				return ts.Add(-time.Second)
			}
			return ts
		})
	}},
	{scratchTables, "tables are not removed", func(s *site) {
		var asked atomic.Int64 // the first time it does not exist yet
		s.between = answer(func(r *btapb.DeleteTableRequest, _ any) (bool, error) {
			return strings.HasSuffix(r.Name, testSuffix) && asked.Add(1) > 1, nil
		})
	}},
}

func lastScanned(msg any) []byte {
	r, _ := msg.(*btpb.ReadRowsResponse)
	return r.GetLastScannedRowKey()
}

// TestWrongStandInsAreFound: each fails its line, and no other, for which a sample stands.
func TestWrongStandInsAreFound(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	found := map[string]bool{}
	for _, w := range wrongStandIns {
		found[w.line] = true
		t.Run(w.line+", "+w.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			effort := smallEffort // of the other lines
			switch w.line {
			case "request-shapes":
				effort.every = lineEffort.every
			case "sizes":
				effort.sizes = lineEffort.sizes
			}
			s.effort = &effort
			if !fixture.Sampled(w.line + w.name) { // which also has the other lines pass
				s.Lines = []string{w.line}
			}
			w.breakIt(s)
			s.start(t)
			levels, r := s.levels(t)
			for _, l := range r.Results {
				want := health.OK
				switch {
				case l.Name == w.line:
					want = health.Failed
				case l.Name == "storage", l.Name == "progress" && s.disks == nil:
					want = health.NotChecked
				}
				if levels[l.Name] != want {
					t.Errorf("%s: %+v, want %q", l.Name, l.Findings, want)
				} else if want == health.Failed {
					t.Logf("%s: %s", l.Name, l.Findings[slices.IndexFunc(l.Findings, func(f health.Finding) bool { return f.Level == health.Failed })].Saw)
				}
			}
		})
	}
	for _, l := range Lines() {
		if !found[l.Name] && l.Name != "storage" { // it measures, and proves nothing
			t.Errorf("no stand-in breaks %s", l.Name)
		}
	}
}

// tablesOf are the tables of a stand-in.
func tablesOf(t *testing.T, server *emulator.Server) []string {
	t.Helper()
	admin, err := bigtable.NewAdminClient(t.Context(), "p", "i", server.ClientOptionsOf("owner")...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	names, err := admin.Tables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return names
}
