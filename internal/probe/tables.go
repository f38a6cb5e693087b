package probe

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/health"
)

// Bounds of scratch tables.
const (
	LeftoverAge  = time.Hour // after which a run is taken for dead, and its tables are removed
	maxLeftovers = 16        // that one run removes
	removeLimit  = time.Minute
	dropAttempts = 6
)

// scratchTable is the name of a table that a run has made: when, which one, for what. Tables of no
// other name are ever removed.
var scratchTable = regexp.MustCompile(`^percolator_probe_(\d{8}t\d{6})_[0-9a-f]{8}(?:_made)?$`)

const stamp = "20060102t150405"

func (p *probe) scratchName() string {
	return "percolator_probe_" + cmp.Or(p.suffix, p.started.UTC().Format(stamp)+fmt.Sprintf("_%08x", rand.Uint32()))
}

// madeTable is what an identity makes that may make tables.
func (p *probe) madeTable() string { return p.table + "_made" }

// mayRemove asks for the removal of a table that does not exist.
func (p *probe) mayRemove(ctx context.Context) error {
	err := p.admin.DeleteTable(ctx, p.table)
	if err == nil || status.Code(err) == codes.NotFound {
		return nil
	}
	return fmt.Errorf("the probe needs the right to remove tables, as in roles/bigtable.admin: removing one that does not exist: %w", err)
}

// families are those of the scratch table.
var families = append(slices.Clone(layout.Families[:]), layout.MetaFamily, layout.JournalFamily)

func (p *probe) create(ctx context.Context) error {
	p.made = append(p.made, p.table)
	conf := bigtable.TableConf{TableID: p.table, Families: map[string]bigtable.GCPolicy{}}
	for _, f := range families {
		conf.Families[f] = bigtable.NoGcPolicy()
	}
	ctx, cancel := unabandoned(ctx)
	defer cancel()
	p.createErr = p.admin.CreateTableFromConf(ctx, &conf)
	return p.createErr
}

// unabandoned keeps of ctx only the deadline: a table whose creation is abandoned may appear after
// its removal.
func unabandoned(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := prepareLimit
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

// remove removes all that this run has made and old leftovers, whatever has ended ctx.
func (p *probe) remove(ctx context.Context) Result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
	defer cancel()
	p.meter.allow(removeCost)
	var out []health.Finding
	if p.createErr != nil {
		out = append(out, failed("", "creating %s: %v", p.table, p.createErr))
	}
	var removed []string
	for _, name := range p.made {
		if there, err := p.drop(ctx, name); err != nil {
			out = append(out, failed(p.dropCommand(name), "removing %s: %v", name, err))
		} else if there {
			removed = append(removed, name)
		}
	}
	names, err := p.admin.Tables(ctx)
	if err != nil {
		out = append(out, unable(fmt.Errorf("looking for tables that are left: %w", err))...)
	}
	var leftovers []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		when := scratchTable.FindStringSubmatch(name)
		switch {
		case slices.Contains(p.made, name):
			out = append(out, failed(p.dropCommand(name), "%s is still there after its removal", name))
		case when == nil:
		case !p.old(when[1]):
			out = append(out, health.Finding{Level: health.Warning, Saw: fmt.Sprintf("%s is of a run that is not over, or crashed less than %v ago", name, LeftoverAge), Remedy: p.dropCommand(name)})
		case len(leftovers) < maxLeftovers:
			if _, err := p.drop(ctx, name); err != nil {
				out = append(out, failed(p.dropCommand(name), "removing %s, which a run has left: %v", name, err))
			}
			leftovers = append(leftovers, name)
		}
	}
	if len(leftovers) > 0 {
		out = append(out, health.Fine("removed what crashed runs have left: %s", strings.Join(leftovers, ", "))...)
	}
	sent, _ := p.meter.line()
	return Result{scratchTables, health.ElseFine(out, "created and removed: %s", strings.Join(removed, ", ")), sent}
}

// removeCost is also of repetitions.
var removeCost = Cost{Requests: 2 * (3 + maxLeftovers), Bytes: 16 << 10}

// drop removes a table, if it is there. Google's client does not repeat that.
func (p *probe) drop(ctx context.Context, name string) (there bool, err error) {
	pause := retry.NewBackoff(100*time.Millisecond, 2*time.Second)
	for attempt := range dropAttempts {
		err = p.admin.DeleteTable(ctx, name)
		if status.Code(err) == codes.NotFound { // perhaps by an attempt whose answer was lost
			return attempt > 0, nil
		}
		if !retry.Ambiguous(err) || pause.Wait(ctx) != nil {
			break
		}
	}
	return err == nil, err
}

func (p *probe) dropCommand(name string) string {
	return fmt.Sprintf("cbt -project %s -instance %s deletetable %s", p.Project, p.Instance, name)
}

func (p *probe) old(when string) bool {
	at, err := time.Parse(stamp, when)
	return err == nil && p.started.Sub(at) > LeftoverAge
}
