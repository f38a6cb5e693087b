// Package probe proves on a real instance what the protocol relies on, in scratch tables of its
// own, which it removes. It sends what a client sends, through the same client, and counts it: the
// announced number of requests and bytes is never exceeded.
package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/tso"
)

// Config says what is probed and how much that may cost. Run and Announce fill in the defaults of
// fields that are zero.
type Config struct {
	Project, Instance, AppProfile string
	Options                       []option.ClientOption // of data and administration
	Oracle                        tso.Oracle            // nil: OracleErr says why
	OracleErr                     error
	InstanceOptions               []option.ClientOption // of its administration; nil: none
	Lines                         []string              // those to run; nil: all

	Identities      []Identity
	SeveralClusters string        // an app profile with multi-cluster routing; "": unknown
	LargeValues     bool          // values at Bigtable's limit, 200 MiB in all
	ProgressBytes   int64         // that a table is given for the line "progress"
	ProgressWithin  time.Duration // the deadline that cuts its read; 0: 1 s
	StorageBytes    int64         // that the line "storage" writes and deletes
	MaxLatency      time.Duration // for the p99 of an operation; 0: 1 s
	MaxTime         time.Duration // of everything but the removal of the tables; 0: DefaultMaxTime
	Say             func(line string)

	now    func() time.Time // nil: time.Now
	suffix string           // of the scratch tables; "": the time and a random number
	effort *effort          // nil: fullEffort
}

// DefaultMaxTime bounds a run.
const DefaultMaxTime = 10 * time.Minute

// effort is how often a property is tried.
type effort struct {
	slots, contenders int // of one-winner: cells, and conditional mutations for each
	writes, reads     int // of torn-reads
	samples           int // of each operation
	timestamps        int // that the oracle is asked for
	every             int // one of so many queries is asked
	sizes             int // that are tried
}

var fullEffort = effort{slots: 64, contenders: 32, writes: 300, reads: 600, samples: 100, timestamps: 100_000, every: 1, sizes: 6}

func (c Config) withDefaults() Config {
	c.effort = cmp.Or(c.effort, &fullEffort)
	c.MaxTime, c.MaxLatency, c.ProgressWithin = cmp.Or(c.MaxTime, DefaultMaxTime), cmp.Or(c.MaxLatency, time.Second), cmp.Or(c.ProgressWithin, time.Second)
	c.StorageBytes = min(c.StorageBytes, storageMost)
	if c.now == nil {
		c.now = time.Now
	}
	if c.Say == nil {
		c.Say = func(string) {}
	}
	return c
}

// Line is a property that is proved.
type Line struct {
	Name, About string
	cost        func(c *Config) Cost // at most
	limit       time.Duration
	run         func(p *probe, ctx context.Context) []health.Finding
}

const (
	oracleLine    = "oracle"
	scratchTables = "scratch-tables" // the tables' own creation and removal, which comes last
)

// Lines are all, in the order in which they run.
func Lines() []Line {
	return []Line{
		{"identities", "each identity connects, does its work, and nothing else", identitiesCost, time.Minute, (*probe).identities},
		{"missing-row", "a conditional mutation of a row that does not exist", fixed(10, 10<<10), time.Minute, (*probe).missingRow},
		{"one-winner", "of concurrent conditional mutations of a cell exactly one wins", winnerCost, 2 * time.Minute, (*probe).oneWinner},
		{"cluster-routing", "conditional mutations are refused where several clusters serve", fixed(20, 10<<10), time.Minute, (*probe).clusterRouting},
		{"request-shapes", "every query finds what it is for, whatever bytes names and values have", shapesCost, 2 * time.Minute, (*probe).shapes},
		{"torn-reads", "a read sees all of a row's mutation or nothing, beside writers", tornCost, time.Minute, (*probe).tornReads},
		{"rewritten-versions", "a version that was erased and written again is there", fixed(200, 100<<10), time.Minute, (*probe).rewritten},
		{"far-timestamps", "cell timestamps beyond the year 9999", fixed(80, 50<<10), time.Minute, (*probe).farTimestamps},
		{"sizes", "what is as large as allowed is accepted, what is larger is refused", sizesCost, 5 * time.Minute, (*probe).sizes},
		{"missing-family", "a mutation of a family that does not exist says so, and changes nothing", fixed(20, 10<<10), time.Minute, (*probe).missingFamily},
		{"progress", "a read that is cut at its deadline has shown how far it came", progressCost, 5 * time.Minute, (*probe).progress},
		{"storage", "how long deleted data is stored, over days", storageCost, 5 * time.Minute, (*probe).storage},
		{"latency", "p50 and p99 of each operation", latencyCost, 2 * time.Minute, (*probe).latency},
		{oracleLine, "timestamps increase, close to this clock", fixed(0, 0), time.Minute, (*probe).oracle},
		{scratchTables, "the tables of the probe come and go; those of runs that crashed", func(*Config) Cost { return removeCost }, removeLimit, nil},
	}
}

func fixed(requests int, bytes int64) func(*Config) Cost {
	return func(*Config) Cost { return Cost{Requests: requests, Bytes: bytes} }
}

// chosen are the lines that run. The last one always does.
func (c *Config) chosen() []Line {
	return slices.DeleteFunc(Lines(), func(l Line) bool {
		return c.Lines != nil && l.Name != scratchTables && !slices.Contains(c.Lines, l.Name)
	})
}

// Announcement is the most that a run costs.
type Announcement struct {
	Lines      []Result // with Sent as the most that they may send
	Total      Cost     // with the connections and the scratch table
	Timestamps int      // that the oracle is asked for
	MaxTime    time.Duration
}

// Announce says what Run would cost, and sends nothing.
func Announce(c Config) Announcement {
	c = c.withDefaults()
	a := Announcement{Lines: []Result{{Name: "connecting", Sent: prepareCost}}, Total: prepareCost}
	limits := prepareLimit
	for _, l := range c.chosen() {
		cost := l.cost(&c)
		a.Lines = append(a.Lines, Result{Name: l.Name, Sent: cost})
		a.Total = a.Total.plus(cost)
		limits += l.limit
		if l.Name == oracleLine {
			a.Timestamps = c.effort.samples + c.effort.timestamps
		}
	}
	a.MaxTime = min(c.MaxTime+removeLimit, limits)
	return a
}

// probe is one run.
type probe struct {
	Config
	meter     *meter
	started   time.Time
	table     string   // the scratch table
	made      []string // scratch tables that may exist
	createErr error
	backend   store.Backend // sends what the engine sends
	store     *store.Store  // over backend: the engine's errors
	data      *bigtable.Client
	admin     *bigtable.AdminClient
}

// Report is what a run found, and what it has cost.
type Report struct {
	Results []Result
	Total   Cost
}

// Run connects, proves the lines, and removes its tables, also when ctx ends early. The error is of
// connecting, or of the right to make tables: nothing was made then.
func Run(ctx context.Context, c Config) (report Report, err error) {
	p := &probe{Config: c.withDefaults(), meter: new(meter)}
	p.started = p.now()
	p.table = p.scratchName()
	ctx, cancel := context.WithTimeout(ctx, p.MaxTime)
	defer cancel()
	defer func() { report.Total = p.meter.total() }()
	p.meter.allow(prepareCost)
	disconnect, err := p.connect(ctx)
	defer disconnect()
	preparing, prepared := context.WithTimeout(ctx, prepareLimit)
	defer prepared()
	if err == nil {
		err = p.mayRemove(preparing)
	}
	if err != nil {
		return report, err
	}
	defer func() { report.Results = append(report.Results, p.remove(ctx)) }() // after a panic too
	created := p.create(preparing)
	for _, l := range p.chosen() {
		if l.run != nil {
			p.Say(l.Name)
			report.Results = append(report.Results, p.prove(ctx, l, created))
		}
	}
	p.Say("removing the scratch tables")
	return report, nil
}

// prove runs a line within what it has announced.
func (p *probe) prove(ctx context.Context, l Line, created error) (r Result) {
	r.Name = l.Name
	switch {
	case created != nil:
		r.Findings = unable(errors.New("it needs a scratch table, see the line " + scratchTables))
		return r
	case ctx.Err() != nil:
		r.Findings = unable(fmt.Errorf("it did not begin: %w", ctx.Err()))
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	p.meter.allow(l.cost(&p.Config))
	defer func() {
		if panicked := recover(); panicked != nil {
			r.Findings = []health.Finding{failed("", "it panicked: %v", panicked)}
		}
		var refused bool
		if r.Sent, refused = p.meter.line(); refused {
			r.Findings = append(r.Findings, unable(errExhausted)...)
		}
	}()
	r.Findings = l.run(p, ctx)
	return r
}

// prepareLimit bounds creating the scratch table.
const prepareLimit = time.Minute

// prepareCost is of three clients, two of them with a small pool whose connections are primed,
// perhaps twice, and of the scratch table.
var prepareCost = Cost{Requests: 2*2*connections + 8, Bytes: 16 << 10, Tables: 1}

// Result is what became of a line.
type Result struct {
	Name     string
	Findings []health.Finding
	Sent     Cost // what it has cost
}

// runbook is where to read on about a failure that no command mends.
const runbook = "see docs/RUNBOOK.md#what-check---live-finds"

// failed is a failure with the command that mends it; "": none does.
func failed(remedy, format string, args ...any) health.Finding {
	return health.Found(health.Failed, cmp.Or(remedy, runbook), format, args...)
}

// unable is the finding of a line that could not be carried out.
func unable(err error) []health.Finding { return health.Cannot(err.Error()) }

// outOfReach reports whether err says nothing about what the store does with a request.
func outOfReach(err error) bool {
	return slices.Contains([]codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.ResourceExhausted,
		codes.PermissionDenied, codes.Unauthenticated, status.Code(errExhausted)}, status.Code(err)) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, tso.ErrUnavailable)
}

// stopped is the finding of a line that an error has ended: one of the store, unless it, or the way
// to it, was out of reach.
func stopped(err error) []health.Finding {
	if outOfReach(err) {
		return unable(err)
	}
	return []health.Finding{failed("", "it was stopped by: %v", err)}
}
