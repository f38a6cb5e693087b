package probe

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// alone fails if the stand-in has other tables than those that others use.
func alone(t *testing.T, server *emulator.Server, others ...string) {
	t.Helper()
	want := slices.Sorted(slices.Values(append(others, documents, model.MetaTable)))
	if got := slices.Sorted(slices.Values(tablesOf(t, server))); !slices.Equal(got, want) {
		t.Errorf("tables %q, want %q", got, want)
	}
}

// on is an interceptor for the requests of one row.
func on(row string, do func(ctx context.Context)) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if r, ok := req.(*btpb.CheckAndMutateRowRequest); ok && string(r.RowKey) == row {
			do(ctx)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}

// TestTablesAreRemovedWhateverHappens: and what could not be checked says so.
func TestTablesAreRemovedWhateverHappens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(s *site, interrupt func())
		want    map[string]health.Level
	}{
		"a line panics": {func(s *site, _ func()) {
			s.between = unary(on("missing-row", func(context.Context) { panic("a mistake") }))
		}, map[string]health.Level{"missing-row": health.Failed, "one-winner": health.OK}},
		"a goroutine panics": {func(s *site, _ func()) {
			s.between = unary(on("one-winner", func(context.Context) { panic("a mistake") }))
		}, map[string]health.Level{"one-winner": health.Failed, "missing-row": health.OK, "latency": health.OK}},
		"interrupted": {func(s *site, interrupt func()) {
			s.Say = func(line string) {
				if line == "torn-reads" {
					interrupt()
				}
			}
		}, map[string]health.Level{"one-winner": health.OK, "torn-reads": health.NotChecked, "oracle": health.NotChecked, scratchTables: health.OK}},
		"it takes too long": {func(s *site, _ func()) {
			s.MaxTime, s.Lines = 3*time.Second, []string{"missing-row", "one-winner", "oracle"}
			s.between = unary(on("one-winner", func(ctx context.Context) { <-ctx.Done() }))
		}, map[string]health.Level{"missing-row": health.OK, "one-winner": health.NotChecked, "oracle": health.NotChecked, scratchTables: health.OK}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				s := newSite(t)
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				c.prepare(s, interrupt)
				server := s.start(t)
				r, err := Run(ctx, s.Config)
				if err != nil {
					t.Fatal(err)
				}
				levels := levelsOf(r)
				for line, want := range c.want {
					if levels[line] != want {
						t.Errorf("%s: %q, want %q: %+v", line, levels[line], want, r.Results)
					}
				}
				for _, l := range r.Results {
					for _, f := range l.Findings {
						if c.want[l.Name] == health.NotChecked && !f.Unable {
							t.Errorf("%s: %+v counts as checked", l.Name, f)
						}
					}
				}
				alone(t, server)
			})
		})
	}
}

func TestTablesAreRemovedBeforeAPanicGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	server := s.start(t)
	s.Lines = []string{"missing-row"}
	s.Say = func(string) { panic("a mistake") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was lost")
			}
		}()
		_, _ = Run(t.Context(), s.Config)
	}()
	alone(t, server)
}

// TestLeftoversOfRunsThatAreOverAreRemoved: those of runs that are surely over are removed, the
// others named; nothing else is touched.
func TestLeftoversOfRunsThatAreOverAreRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	server := s.start(t)
	now := time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)
	s.now = func() time.Time { return now }
	s.Lines, s.suffix = []string{"missing-row"}, ""
	const old, oldMade, young = "percolator_probe_20260102t025959_00000001", "percolator_probe_20260102t025959_00000001_made", "percolator_probe_20260102t030001_00000002"
	others := []string{"percolator_probe_notes", "percolator_probe_20260102t025959_00000001_mine", "probe_20260102t025959_00000001"}
	p := &probe{Config: s.withDefaults(), meter: new(meter)}
	p.meter.allow(Cost{Requests: 100, Bytes: 1 << 20})
	disconnect, err := p.connect(t.Context())
	defer disconnect()
	if err != nil {
		t.Fatal(err)
	}
	for _, p.table = range append(others, old, oldMade, young) {
		if err := p.create(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	levels, r := s.levels(t)
	if levels[scratchTables] != health.Warning {
		t.Errorf("%+v", r.Results)
	}
	var saw string
	for _, f := range r.Results[len(r.Results)-1].Findings {
		saw += f.Saw + "\n" + f.Remedy + "\n"
	}
	for _, want := range []string{"removed what crashed runs have left: " + old + ", " + oldMade, young + " is of a run that is not over", "deletetable " + young} {
		if !strings.Contains(saw, want) {
			t.Errorf("it says\n%swithout %q", saw, want)
		}
	}
	alone(t, server, append(others, young)...)
}

// TestNothingIsMadeThatCannotBeRemoved: the right to remove tables is looked at first.
func TestNothingIsMadeThatCannotBeRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	server := s.start(t)
	s.Options = server.ClientOptionsOf("schema")
	if r, err := Run(t.Context(), s.Config); err == nil || !strings.Contains(err.Error(), "roles/bigtable.admin") || len(r.Results) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	alone(t, server)
}

// TestNoMoreIsSentThanAnnounced: a line that would send more is cut short, and says so.
func TestNoMoreIsSentThanAnnounced(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.start(t)
	p := &probe{Config: s.withDefaults(), meter: new(meter), table: "percolator_probe_" + testSuffix}
	p.meter.allow(prepareCost)
	disconnect, err := p.connect(t.Context())
	defer disconnect()
	if err != nil {
		t.Fatal(err)
	}
	created := p.create(t.Context())
	for name, most := range map[string]Cost{"requests": {Requests: 5, Bytes: 1 << 20}, "bytes": {Requests: 1000, Bytes: 500}} {
		l := Lines()[slices.IndexFunc(Lines(), func(l Line) bool { return l.Name == "rewritten-versions" })]
		l.cost = func(*Config) Cost { return most }
		r := p.prove(t.Context(), l, created)
		if r.Sent.Requests > most.Requests || r.Sent.Bytes > most.Bytes {
			t.Errorf("%s: sent %+v of %+v", name, r.Sent, most)
		}
		if last := r.Findings[len(r.Findings)-1]; !last.Unable || !strings.Contains(last.Saw, "used up") {
			t.Errorf("%s: %+v", name, r.Findings)
		}
	}
}

// TestRemovalIsRepeated: a table does not stay because the service was away for a moment.
func TestRemovalIsRepeated(t *testing.T) {
	t.Parallel()
	for name, applied := range map[string]bool{"refused": false, "applied": true} {
		s := newSite(t)
		s.Lines = []string{"missing-row"}
		var asked atomic.Int64 // the first time the table does not exist yet
		s.between = unary(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if _, ok := req.(*adminpb.DeleteTableRequest); ok && asked.Add(1) == 2 {
				if applied {
					_ = invoke(ctx, method, req, reply, cc, opts...)
				}
				return errAway
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		})
		server := s.start(t)
		if levels, r := s.levels(t); levels[scratchTables] != health.OK || !strings.Contains(r.Results[1].Findings[0].Saw, testSuffix) {
			t.Errorf("%s: %+v", name, r.Results[1])
		}
		alone(t, server)
	}
}

// TestInterruptedCreation: a table whose creation an interrupt abandons would come after its
// removal.
func TestInterruptedCreation(t *testing.T) {
	t.Parallel()
	for _, table := range []string{testSuffix, testSuffix + "_made"} {
		s := newSite(t)
		s.Lines = []string{"identities"}
		ctx, interrupt := context.WithCancel(t.Context())
		abandoned := false
		s.between = unary(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if r, ok := req.(*adminpb.CreateTableRequest); ok && strings.HasSuffix(r.TableId, table) {
				interrupt()
				if ctx.Err() != nil {
					abandoned = true
					return status.FromContextError(ctx.Err()).Err()
				}
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		})
		s.start(t)
		s.Identities = s.Identities[len(s.Identities)-1:] // schema
		if r, err := Run(ctx, s.Config); err != nil || abandoned {
			t.Errorf("%s: %+v, %v; abandoned: %v", table, r, err, abandoned)
		}
	}
}
