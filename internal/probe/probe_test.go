package probe

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// lineEffort keeps tests of one line short. Tests of another one leave out what takes longest:
// smallEffort. A block of queries (shapes.go) is no multiple of every, so that each shape is asked.
var (
	lineEffort  = effort{slots: 8, contenders: 16, writes: 60, reads: 120, samples: 5, timestamps: 1000, every: 4, sizes: 6}
	smallEffort = effort{slots: 8, contenders: 16, writes: 60, reads: 120, samples: 5, timestamps: 1000, every: 25, sizes: 4}
)

const testSuffix = "20260102t030405_0123abcd"

func TestEachShapeIsAsked(t *testing.T) {
	block := len(cellQueries()) / blocks
	for _, e := range []effort{lineEffort, smallEffort} {
		if block%2 == 0 && e.every%2 == 0 || block%5 == 0 && e.every%5 == 0 {
			t.Errorf("a block has %d queries, and one of %d is asked: some shapes are left out", block, e.every)
		}
	}
}

// site is a strict stand-in, and a probe of it on which every line but "progress" and "storage",
// which takes days, has something to check.
type site struct {
	Config
	rights   map[string]emulator.Rights
	profiles map[string]emulator.AppProfile
	disks    *emulator.Disks // nil: reading costs nothing
	between  []option.ClientOption
}

// documents is a table that the identities are given.
const documents = "documents"

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{
		Config: Config{Project: "p", Instance: "i", Oracle: newOracle(t), SeveralClusters: "anywhere", MaxLatency: 20 * time.Second,
			suffix: testSuffix, effort: &smallEffort},
		rights:   map[string]emulator.Rights{"owner": {Instance: emulator.Role("roles/bigtable.admin")}},
		profiles: map[string]emulator.AppProfile{"anywhere": {}},
	}
	for _, r := range Roles() {
		s.rights[r.Name] = rightsOf(r)
	}
	return s
}

// onDisks has the line "progress" checked too.
func (s *site) onDisks() {
	s.ProgressBytes, s.ProgressWithin = largeRow, time.Second
	s.disks = &emulator.Disks{Speed: 1 << 30, Clean: []emulator.Clean{{Table: "percolator_probe_" + testSuffix, Start: progressPrefix, End: "progress0", Bytes: 1 << 40}}}
}

// rightsOf are those of a role, by table.
func rightsOf(r Role) emulator.Rights {
	of := map[Access][]string{Read: emulator.Role("roles/bigtable.reader"), Write: emulator.Role("roles/bigtable.user")}
	out := emulator.Rights{Instance: []string{"bigtable.instances.ping"}, Tables: map[string][]string{model.MetaTable: of[r.Meta], documents: of[r.Tables]}}
	if r.Create {
		out.Instance = append(out.Instance, "bigtable.tables.create")
	}
	return out
}

func newOracle(t *testing.T) tso.Oracle {
	t.Helper()
	server, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return server
}

// start starts the stand-in, and returns it.
func (s *site) start(t *testing.T) *emulator.Server {
	t.Helper()
	opts := []emulator.Option{emulator.InMemory(), emulator.Principals(s.rights), emulator.AppProfiles(s.profiles)}
	if s.disks != nil {
		opts = append(opts, emulator.OnDisks(s.disks))
	}
	server, err := emulator.Start(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	s.Options = append(s.between, server.ClientOptionsOf("owner")...)
	s.Identities = nil
	for _, r := range Roles() {
		s.Identities = append(s.Identities, Identity{Role: r, Name: r.Name, Tables: []string{documents}, Options: append(slices.Clone(s.between), server.ClientOptionsOf(r.Name)...)})
	}
	c := s.Config
	c.Options = server.ClientOptionsOf("owner")
	p := &probe{Config: c.withDefaults(), meter: new(meter)}
	p.meter.allow(Cost{Requests: 100, Bytes: 1 << 20})
	disconnect, err := p.connect(t.Context())
	defer disconnect()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{model.MetaTable, documents} {
		if p.table = table; p.create(t.Context()) != nil {
			t.Fatal(p.createErr)
		}
	}
	return server
}

// levels runs the probe and returns the worst level of each line.
func (s *site) levels(t *testing.T) (map[string]health.Level, Report) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := Run(ctx, s.Config)
	if err != nil {
		t.Fatal(err)
	}
	return levelsOf(r), r
}

func levelsOf(r Report) map[string]health.Level {
	out := map[string]health.Level{}
	for _, l := range r.Results {
		out[l.Name] = health.OK
		for _, f := range l.Findings {
			out[l.Name] = health.Worst(out[l.Name], f.Level)
		}
	}
	return out
}

// TestEveryLinePasses: on the strict stand-in, with disks, and within what was announced, which the
// stand-in's side counts.
func TestEveryLinePasses(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	s := newSite(t)
	s.onDisks()
	all := lineEffort
	all.every = 1
	s.effort = &all
	arrived := new(counter)
	s.between = arrived.options()
	server := s.start(t)
	started := time.Now()
	levels, r := s.levels(t)
	most := Announce(s.Config)
	t.Logf("%v, %+v of at most %+v", time.Since(started), r.Total, most.Total)
	for i, l := range r.Results {
		t.Logf("%s %+v: %+v", l.Name, l.Sent, l.Findings)
		if l.Name != most.Lines[i+1].Name {
			t.Errorf("line %d is %s, announced as %s", i, l.Name, most.Lines[i+1].Name)
		}
		want := health.OK
		if l.Name == "storage" {
			want = health.NotChecked
		}
		if levels[l.Name] != want {
			t.Errorf("%s: %+v", l.Name, l.Findings)
		}
		if at := most.Lines[i+1].Sent; l.Sent.Requests > at.Requests || l.Sent.Bytes > at.Bytes || at.Requests > 0 && l.Sent.Requests == 0 {
			t.Errorf("%s sent %+v of %+v", l.Name, l.Sent, at)
		}
	}
	if n := int(arrived.n.Load()); n != r.Total.Requests || n > most.Total.Requests {
		t.Errorf("%d requests arrived; the probe counts %d, and has announced %d", n, r.Total.Requests, most.Total.Requests)
	}
	if n := arrived.endless.Load(); n > 0 {
		t.Errorf("%d requests have no deadline", n)
	}
	if left := tablesOf(t, server); len(left) != 2 {
		t.Errorf("left are %q", left)
	}
}
