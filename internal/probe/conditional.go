package probe

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/health"
)

// setting is a mutation that sets a cell of the family meta.
func setting(column string, ts bigtable.Timestamp, value string) *bigtable.Mutation {
	m := bigtable.NewMutation()
	m.Set(layout.MetaFamily, column, ts, []byte(value))
	return m
}

// putting is setting for the engine's store, in any family.
func putting(family, column, value string) *store.Mutation {
	m := store.NewMutation(2)
	m.Put(family, column, 1, []byte(value))
	return m
}

// values are the newest values of a row of the scratch table, by column of the family meta.
func (p *probe) values(ctx context.Context, row string) (map[string]string, error) {
	r, err := p.data.Open(p.table).ReadRow(ctx, row)
	out := map[string]string{}
	for _, it := range slices.Backward(r[layout.MetaFamily]) {
		out[it.Column[len(layout.MetaFamily)+1:]] = string(it.Value)
	}
	return out, err
}

// missingRow: the predicate finds nothing, and the branch for that is applied; then it finds
// something.
func (p *probe) missingRow(ctx context.Context) (out []health.Finding) {
	const row = "missing-row"
	put := func(value string) *store.Mutation { return putting(layout.MetaFamily, "c", value) }
	for i, c := range []struct {
		onMatch, onMiss *store.Mutation
		matched         bool
		want            string
	}{
		{put("1"), nil, false, ""},
		{put("1"), put("2"), false, "2"},
		{put("1"), put("2"), true, "1"},
		{nil, put("2"), true, "1"},
	} {
		matched, err := p.backend.CheckAndMutate(ctx, p.table, row, store.CellExists("c"), c.onMatch, c.onMiss)
		if err != nil {
			return append(out, stopped(err)...)
		}
		got, err := p.values(ctx, row)
		if err != nil {
			return append(out, stopped(err)...)
		}
		if matched != c.matched || got["c"] != c.want {
			out = append(out, failed("", "conditional mutation %d of a row that was missing: matched %v, then the cell is %q; want %v, %q", i+1, matched, got["c"], c.matched, c.want))
		}
	}
	return health.ElseFine(out, "4 conditional mutations: each branch was applied when it should, and a branch that is missing changed nothing")
}

func winnerCost(c *Config) Cost {
	n := c.effort.slots*c.effort.contenders + 2
	return Cost{Requests: n, Bytes: int64(n) * 512}
}

// oneWinner: contenders for a cell each set it if it is missing, all at once. All cells are in one
// row.
func (p *probe) oneWinner(ctx context.Context) (out []health.Finding) {
	const row = "one-winner"
	slots, contenders := p.effort.slots, p.effort.contenders
	var mu sync.Mutex
	won, doubtful := make([][]string, slots), 0
	started := p.now()
	err := each(ctx, slots*contenders, slots*contenders, func(ctx context.Context, i int) error {
		slot, who := i/contenders, fmt.Sprint(i%contenders)
		matched, err := p.backend.CheckAndMutate(ctx, p.table, row, store.CellExists(fmt.Sprint(slot)), nil, putting(layout.MetaFamily, fmt.Sprint(slot), who))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil && retry.Ambiguous(err) && ctx.Err() == nil:
			doubtful++
			won[slot] = append(won[slot], "?"+who)
		case err != nil:
			return err
		case !matched:
			won[slot] = append(won[slot], who)
		}
		return nil
	})
	if err != nil {
		return stopped(err)
	}
	took := p.now().Sub(started)
	got, err := p.values(ctx, row)
	if err != nil {
		return stopped(err)
	}
	undecided := 0
	for slot, who := range won {
		there := got[fmt.Sprint(slot)]
		sure := slices.DeleteFunc(slices.Clone(who), func(w string) bool { return w[0] == '?' })
		if there == "" && len(sure) == 0 && len(who) == contenders { // none has lost either
			undecided++
		} else if len(sure) > 1 || len(sure) == 1 && sure[0] != there || len(sure) == 0 && !slices.Contains(who, "?"+there) {
			out = append(out, failed("percolator check --only app-profile", "%d of %d concurrent conditional mutations won cell %d (%v), which holds %q", len(sure), contenders, slot, sure, there))
		}
	}
	if undecided > 0 {
		out = append(out, unable(fmt.Errorf("of %d cells every outcome is ambiguous, and none has a winner", undecided))...)
	}
	return health.ElseFine(out, "%d concurrent conditional mutations on one row in %v (%.0f/s), %d for each of %d cells: each has one winner, %d outcomes were ambiguous",
		slots*contenders, took.Round(resolution), float64(slots*contenders)/max(took.Seconds(), 1e-6), contenders, slots, doubtful)
}

// clusterRouting: a conditional mutation under a profile that routes to several clusters.
func (p *probe) clusterRouting(ctx context.Context) []health.Finding {
	profile, err := p.anywhere(ctx)
	if err != nil {
		return health.Unchecked("looking for an app profile that routes to several clusters: %v", err)
	}
	if profile == "" {
		return health.Unchecked("no app profile that routes to several clusters is known (--several-clusters PROFILE)")
	}
	opts := slices.Concat(p.meter.options(), []option.ClientOption{option.WithGRPCConnectionPool(1)}, p.Options)
	data, err := dataClient(ctx, p.Project, p.Instance, profile, opts)
	if err != nil {
		return stopped(err)
	}
	defer func() { _ = data.Close() }()
	err = data.Open(p.table).Apply(ctx, "cluster-routing", bigtable.NewCondMutation(bigtable.PassAllFilter(), nil, setting("c", 1000, "v")))
	switch code := status.Code(err); code {
	case codes.FailedPrecondition, codes.InvalidArgument:
		return health.Fine("app profile %q refuses conditional mutations: %v", profile, code)
	case codes.OK:
		return []health.Finding{failed(fmt.Sprintf("gcloud bigtable app-profiles delete %s --project=%s --instance=%s", profile, p.Project, p.Instance),
			"app profile %q routes to several clusters, and applies conditional mutations", profile)}
	}
	return stopped(err)
}

// anywhere is an app profile that routes to several clusters, "" if none is known.
func (p *probe) anywhere(ctx context.Context) (string, error) {
	if p.SeveralClusters != "" || p.InstanceOptions == nil {
		return p.SeveralClusters, nil
	}
	admin, err := bigtable.NewInstanceAdminClient(ctx, p.Project, slices.Concat(p.meter.options(), p.InstanceOptions)...)
	if err != nil {
		return "", err
	}
	defer func() { _ = admin.Close() }()
	for all := admin.ListAppProfiles(ctx, p.Instance); ; {
		profile, err := all.Next()
		switch {
		case errors.Is(err, iterator.Done):
			return "", nil
		case err != nil:
			return "", err
		case profile.GetMultiClusterRoutingUseAny() != nil && profile.GetDataBoostIsolationReadOnly() == nil:
			return path.Base(profile.GetName()), nil
		}
	}
}
