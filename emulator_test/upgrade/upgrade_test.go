//go:build unix

// Package upgrade runs programs of two revisions on one instance, as a rolling upgrade does.
package upgrade

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var (
	revision = flag.String("revision", "", "revision of the old programs, such as HEAD~1; without one they are of this revision, too")
	work     = flag.Int64("work", 0, "transactions of each process of clients in each phase; 0: 60, fewer where both revisions are the same")
)

// phase is who works beside clients of both revisions.
type phase struct{ oracle, worker, collector programs }

// TestRollingUpgrade: an instance that the old revision has made is used by clients, workers,
// collectors and oracles of both, which hand over to each other and crash. What everybody saw is
// snapshot isolation, no observer has missed a change, and the tables are as they must be. A
// revision that refuses the other one fails the test with the error that it gives.
func TestRollingUpgrade(t *testing.T) {
	fixture.Slow(t)
	now := ours(t)
	if *revision == "" {
		*work = cmp.Or(*work, fixture.Of[int64](60, 15))
		before := programs{"old", now.percolator, now.member}
		upgrade(t, before, now, []phase{{before, before, now}, {now, now, before}})
		return
	}
	if out, err := exec.Command("git", "-C", root, "rev-parse", "--verify", *revision+"^{commit}").CombinedOutput(); err != nil {
		t.Skipf("there is no revision to compare with: %v: %s", err, out)
	}
	if why := predates(t, *revision); why != "" {
		t.Skip("NOT TESTED: " + why)
	}
	*work = cmp.Or(*work, 60)
	before := theirs(t, *revision)
	// Each two of oracle, worker and collector meet in all four ways.
	upgrade(t, before, now, []phase{{before, before, before}, {before, now, now}, {now, before, now}, {now, now, before}, {before, before, now}})
}

// upgrade has the phases follow each other. The oracle moves on by a handover and back by a crash.
func upgrade(t *testing.T, before, now programs, phases []phase) {
	r := newRolling(t)
	r.percolator(before, "init")
	addresses := strings.Split(r.at.Oracle, ",")
	leader := r.launch(before, order{Role: "oracle", Listen: addresses[0]})
	r.launch(before, order{Role: "schema"}).await()
	// Clients that never pause leave more streams, while a collection takes its time, than the next
	// one can collect in as long.
	pause := 100 * time.Millisecond
	if *revision == "" {
		pause = fixture.Of(0, 300*time.Millisecond)
	}
	clients := []*process{r.launch(before, order{Role: "clients", Pause: pause}), r.launch(now, order{Role: "clients", Pause: pause})}
	for _, p := range phases {
		if former := leader; p.oracle != former.of {
			slices.Reverse(addresses)
			leader = r.launch(p.oracle, order{Role: "oracle", Listen: addresses[0]})
			if p.oracle == before {
				former.kill()
			} else {
				former.end()
			}
		}
		r.phase(p, clients)
	}
	for _, c := range clients {
		c.end()
	}
	r.rest(now)
}

func newRolling(t *testing.T) *rolling {
	t.Helper()
	r := &rolling{T: t, dir: t.TempDir(), seed: rand.Uint64()}
	t.Logf("seed %d", r.seed)
	s, err := emulator.Start()
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	r.at = percolatortest.Location{Store: s.Addr(), Oracle: free(t) + "," + free(t), Project: "p", Instance: "i"}
	r.board = openBoard(t, r.dir+"/board")
	r.history = history.Counting(&r.Events)
	return r
}

// free is an address at which nobody listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

var removed = regexp.MustCompile(`versions removed +[1-9]`)

// phase has everybody work. One of the workers crashes in the end.
func (r *rolling) phase(p phase, clients []*process) {
	r.Helper()
	workers := []*process{r.launch(p.worker, order{Role: "worker"}), r.launch(p.worker, order{Role: "worker", Crashes: true})}
	var want []int64
	for _, c := range clients {
		want = append(want, c.steps()+*work)
	}
	for i, c := range clients {
		r.within(fmt.Sprintf("%s goes on", c.order.Name), func() bool { return c.steps() >= want[i] })
	}
	for _, w := range workers {
		r.within(fmt.Sprintf("%s runs observers", w.order.Name), func() bool { return w.steps() > 0 })
	}
	// A share of the collection that begins with a nonce (J10), and that former versions can
	// replace.
	fixture.CopyStreams(r, r.Context(), percolatortest.Join(r.T, r.at), 190)
	r.Skew.Add(int64(2 * time.Minute)) // most of what there is is old
	if said := r.collect(p.collector); !removed.MatchString(said) {
		r.Errorf("the collector of the %s revision removed nothing:\n%s", p.collector, said)
	}
	for _, w := range workers {
		w.end()
	}
}

// rest brings everything to its end, and judges.
func (r *rolling) rest(of programs) {
	r.Helper()
	r.Skew.Add(int64(time.Minute + lockTTL)) // no lock lives, and no lease of a sweep whose worker has crashed
	r.percolator(of, "sweep")
	env := percolatortest.Join(r.T, r.at)
	client := env.NewClient(percolatortest.Configure(configure))
	worker := r.launch(of, order{Role: "worker"})
	r.percolator(of, "notify", "wait", "--timeout", "1m")
	worker.end()
	must(r, workload.Sharing(&r.Work, r.history).Final(r.Context(), client, true))
	report, err := percolatortest.Audit(r.Context(), env.Store(), model.AuditConfig{
		Schema: client.Schema(), Observers: workload.Observed(),
	})
	must(r, err)
	if report.Found > 0 {
		r.Error(report)
	}
	checked := history.Check(r.history, workload.Rules())
	if checked.Found() > 0 {
		r.Error(checked)
	}
	r.Log(checked)
}
