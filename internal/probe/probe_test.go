package probe

import (
	"context"
	"testing"
	"time"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// smallEffort keeps tests short.
var smallEffort = effort{slots: 16, contenders: 16, writes: 100, reads: 200, samples: 5, timestamps: 1000}

const runLimit = 2 * time.Minute

// clockOracle gives timestamps of a clock.
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

const testSuffix = "20260102t030405_0123abcd"

func TestProbe(t *testing.T) {
	t.Parallel()
	c := newSite(t).Config
	begun := time.Now()
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range r.Results {
		t.Logf("%s: %+v %+v", l.Name, l.Findings, l.Sent)
	}
	t.Logf("%+v %v", r.Total, time.Since(begun))
	t.Logf("%+v", Announce(c))
}

// site is a strict stand-in on which every line can be checked.
type site struct {
	Config
	server *emulator.Server
}

func newSite(t *testing.T) *site {
	t.Helper()
	table := "percolator_probe_" + testSuffix
	all := emulator.Role("roles/bigtable.admin")
	server, err := emulator.Start(
		emulator.Principals(map[string]emulator.Rights{"owner": {Instance: all}}),
		emulator.AppProfiles(map[string]emulator.AppProfile{"anywhere": {}}),
		emulator.OnDisks(&emulator.Disks{Speed: 1 << 30, Clean: []emulator.Clean{{Table: table, Start: progressPrefix, End: "progress0", Bytes: 1 << 40}}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return &site{server: server, Config: Config{Project: "p", Instance: "i", Options: server.ClientOptionsOf("owner"), Oracle: newOracle(t),
		SeveralClusters: "anywhere", ProgressWithin: 200 * time.Millisecond, suffix: testSuffix, effort: &smallEffort}}
}

var _ []option.ClientOption
