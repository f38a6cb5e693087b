package main

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
)

// profiles is an instance administration that knows app profiles.
type profiles struct {
	btapb.UnimplementedBigtableInstanceAdminServer
	list   []*btapb.AppProfile
	refuse error
}

func (p *profiles) GetAppProfile(_ context.Context, r *btapb.GetAppProfileRequest) (*btapb.AppProfile, error) {
	for _, profile := range p.list {
		if profile.Name == r.Name {
			return profile, p.refuse
		}
	}
	return nil, status.Error(codes.NotFound, "no such app profile")
}

func (p *profiles) ListAppProfiles(context.Context, *btapb.ListAppProfilesRequest) (*btapb.ListAppProfilesResponse, error) {
	return &btapb.ListAppProfilesResponse{AppProfiles: p.list}, p.refuse
}

// serve returns the options to reach it.
func (p *profiles) serve(t *testing.T) []option.ClientOption {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	btapb.RegisterBigtableInstanceAdminServer(server, p)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-ended })
	return []option.ClientOption{option.WithEndpoint(l.Addr().String()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))}
}

func profile(name, cluster string, transactional bool) *btapb.AppProfile {
	return &btapb.AppProfile{Name: "projects/p/instances/i/appProfiles/" + name, RoutingPolicy: &btapb.AppProfile_SingleClusterRouting_{
		SingleClusterRouting: &btapb.AppProfile_SingleClusterRouting{ClusterId: cluster, AllowTransactionalWrites: transactional}}}
}

func TestCheckAppProfile(t *testing.T) {
	t.Parallel()
	anyCluster := &btapb.AppProfile{Name: "projects/p/instances/i/appProfiles/default", RoutingPolicy: &btapb.AppProfile_MultiClusterRoutingUseAny_{
		MultiClusterRoutingUseAny: &btapb.AppProfile_MultiClusterRoutingUseAny{}}}
	boost := profile("default", "c1", false)
	boost.Isolation = &btapb.AppProfile_DataBoostIsolationReadOnly_{DataBoostIsolationReadOnly: &btapb.AppProfile_DataBoostIsolationReadOnly{}}
	for name, c := range map[string]struct {
		admin profiles
		use   string // the app profile, and after a + that of background work
		want  []string
		saw   string
		by    string
	}{
		"good":            {profiles{list: []*btapb.AppProfile{profile("default", "c1", true)}}, "", []string{saysOK}, "cluster c1", ""},
		"named":           {profiles{list: []*btapb.AppProfile{profile("txn", "c2", true), anyCluster}}, "txn", []string{saysOK}, "cluster c2", ""},
		"any cluster":     {profiles{list: []*btapb.AppProfile{anyCluster}}, "", []string{saysFailed}, "any cluster", "update default"},
		"reads only":      {profiles{list: []*btapb.AppProfile{profile("default", "c1", false)}}, "", []string{saysFailed}, "transactional writes", "--route-to=c1"},
		"Data Boost":      {profiles{list: []*btapb.AppProfile{boost}}, "", []string{saysFailed}, "Data Boost", "create"},
		"missing":         {profiles{}, "txn", []string{saysFailed}, `no app profile "txn"`, "create txn"},
		"another cluster": {profiles{list: []*btapb.AppProfile{profile("default", "c1", true), profile("x", "c2", true)}}, "", []string{saysOK, saysWarning}, "c2", "update x"},
		"background": {profiles{list: []*btapb.AppProfile{profile("default", "c1", true), profile("batch", "c1", true)}}, "+batch",
			[]string{saysOK, saysOK}, `"batch" routes to cluster c1`, ""},
		"background elsewhere": {profiles{list: []*btapb.AppProfile{profile("default", "c1", true), profile("batch", "c2", true)}}, "+batch",
			[]string{saysOK, saysFailed}, "c2, and transactions go to c1", "update batch"},
		"background reads only": {profiles{list: []*btapb.AppProfile{profile("default", "c1", true), profile("batch", "c1", false)}}, "+batch",
			[]string{saysOK, saysFailed}, "transactional writes", "update batch"},
		"not permitted": {profiles{list: []*btapb.AppProfile{profile("default", "c1", true)}, refuse: status.Error(codes.PermissionDenied, "no")}, "",
			[]string{saysNotChecked}, "no", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl := newCluster(t, nil)
			cl.instances = c.admin.serve(t)
			use, background, _ := strings.Cut(c.use, "+")
			code := cli.ExitOK
			if slices.Contains(c.want, saysFailed) {
				code = cli.ExitFindings
			}
			got := cl.checked(code, "--only", "app-profile", "--app-profile", use, "--background-app-profile", background, "--timeout", "3s")["app-profile"].Findings
			var levels []string
			for _, f := range got {
				levels = append(levels, f.Level)
			}
			last := got[len(got)-1]
			if !cmp.Equal(levels, c.want) || !strings.Contains(last.Saw, c.saw) || !strings.Contains(last.Remedy, c.by) {
				t.Errorf("%+v, want levels %q, %q and %q", got, c.want, c.saw, c.by)
			}
		})
	}
}

// The flag reaches the client: Bigtable is asked under the profile that it names.
func TestBackgroundAppProfileFlag(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
	cl.must(cli.ExitOK, "locks", "ls", "--background-app-profile", "default")
	if r := cl.run("locks", "ls", "--background-app-profile", "nobodys"); r.code == cli.ExitOK || !strings.Contains(r.stderr, "nobodys") {
		t.Errorf("under a profile that there is not: exit status %d, %s", r.code, r.stderr)
	}
}
