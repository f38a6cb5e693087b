package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"

	"cloud.google.com/go/bigtable"
	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/health"
)

// maxAppProfiles is how many profiles of an instance are looked at.
const maxAppProfiles = 1000

// checkAppProfile: a conditional mutation is atomic in one cluster, so all traffic must go to the
// same one (docs/internals/ARCHITECTURE.md), that of background work included.
func checkAppProfile(ctx context.Context, x *checker) []health.Finding {
	opts, ok := cli.InstanceAdminOptions(ctx)
	if !ok {
		return health.Unchecked("an emulator has no app profiles")
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	d := x.flags
	admin, err := bigtable.NewInstanceAdminClient(ctx, d.Project, opts...)
	if err != nil {
		return cannot(err)
	}
	defer func() { _ = admin.Close() }()
	name := cmp.Or(d.AppProfile, "default")
	cluster, out := x.checkProfile(ctx, admin, name)
	if cluster == "" {
		return out
	}
	if d.Background != "" && d.Background != name {
		other, more := x.checkProfile(ctx, admin, d.Background)
		if other != "" && other != cluster {
			more = []health.Finding{health.Found(health.Failed, x.profileCommand("update", d.Background, cluster),
				"app profile %q, for background work, routes to cluster %s, and transactions go to %s", d.Background, other, cluster)}
		}
		if out = append(out, more...); other != cluster {
			return out
		}
	}
	return append(out, x.otherProfiles(ctx, admin, name, cluster)...)
}

// checkProfile looks at one profile. cluster is "" if transactions cannot use it.
func (x *checker) checkProfile(ctx context.Context, admin *bigtable.InstanceAdminClient, name string) (cluster string, out []health.Finding) {
	profile, err := admin.GetAppProfile(ctx, x.flags.Instance, name)
	switch {
	case status.Code(err) == codes.NotFound:
		return "", []health.Finding{health.Found(health.Failed, x.profileCommand("create", name, "CLUSTER"), "the instance has no app profile %q", name)}
	case status.Code(err) == codes.PermissionDenied, status.Code(err) == codes.Unimplemented:
		return "", health.Unchecked("reading the app profile: %s", cli.ShortError(err))
	case err != nil:
		return "", cannot(err)
	}
	if out = x.judgeProfile(name, profile); out[0].Level == health.OK {
		cluster = profile.GetSingleClusterRouting().GetClusterId()
	}
	return cluster, out
}

func (x *checker) profileCommand(verb, name, cluster string) string {
	return fmt.Sprintf("gcloud bigtable app-profiles %s %s --project=%s --instance=%s --route-to=%s --transactional-writes", verb, name,
		x.flags.Project, x.flags.Instance, cluster)
}

func (x *checker) judgeProfile(name string, profile *btapb.AppProfile) []health.Finding {
	single := profile.GetSingleClusterRouting()
	switch {
	case profile.GetDataBoostIsolationReadOnly() != nil:
		return []health.Finding{health.Found(health.Failed, x.profileCommand("create", "percolator", "CLUSTER"),
			"app profile %q is for Data Boost, which only reads", name)}
	case single == nil:
		return []health.Finding{health.Found(health.Failed, x.profileCommand("update", name, "CLUSTER"),
			"app profile %q routes to any cluster: transactions need one that routes to a single cluster", name)}
	case !single.AllowTransactionalWrites:
		return []health.Finding{health.Found(health.Failed, x.profileCommand("update", name, single.ClusterId),
			"app profile %q routes to cluster %s, but does not allow transactional writes", name, single.ClusterId)}
	}
	return health.Fine("app profile %q routes to cluster %s and allows transactional writes", name, single.ClusterId)
}

// otherProfiles warns of profiles by which another cluster could take conditional mutations as
// well.
func (x *checker) otherProfiles(ctx context.Context, admin *bigtable.InstanceAdminClient, name, cluster string) (out []health.Finding) {
	all := admin.ListAppProfiles(ctx, x.flags.Instance)
	for range maxAppProfiles {
		profile, err := all.Next()
		switch {
		case errors.Is(err, iterator.Done):
			return out
		case err != nil:
			return append(out, health.Unchecked("the other app profiles: %s", cli.ShortError(err))...)
		}
		single := profile.GetSingleClusterRouting()
		if other := path.Base(profile.GetName()); other != name && single.GetAllowTransactionalWrites() && single.GetClusterId() != cluster {
			out = append(out, health.Found(health.Warning, x.profileCommand("update", other, cluster),
				"app profile %q allows transactional writes on cluster %s: no transactions of this instance may use it", other, single.GetClusterId()))
		}
	}
	return append(out, health.Unchecked("the app profiles after the first %d", maxAppProfiles)...)
}
