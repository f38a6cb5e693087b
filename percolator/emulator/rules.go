package emulator

import (
	"cmp"
	"context"
	"slices"
	"strings"

	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// rules are what Cloud Bigtable refuses and Google's emulator does not: too large, not allowed to
// the caller, not allowed to the app profile.
type rules struct {
	limits   limits
	rights   map[string]Rights // by principal; nil: all may do everything
	profiles map[string]AppProfile
}

func defaultRules() rules {
	return rules{limits: serviceLimits, profiles: map[string]AppProfile{defaultProfile: {SingleCluster: true, TransactionalWrites: true}}}
}

// check refuses a request, as far as it can be judged without the data.
func (r rules) check(ctx context.Context, req any) error {
	return cmp.Or(r.authorize(ctx, req), r.checkProfile(req), r.limits.check(req))
}

// AppProfile is what an app profile allows.
type AppProfile struct {
	SingleCluster       bool // it routes to one cluster
	TransactionalWrites bool // allow_transactional_writes
	LowPriority         bool // its reads wait for those of other profiles ([OnDisks])
}

const defaultProfile = "default"

// AppProfiles adds app profiles, by ID. Without it there is only "default", which routes to one
// cluster and allows transactional writes; a request that names another gets the code NotFound.
func AppProfiles(profiles map[string]AppProfile) Option {
	return func(s *settings) {
		for id, p := range profiles {
			s.rules.profiles[id] = p
		}
	}
}

// profiled is a request of the data API.
type profiled interface{ GetAppProfileId() string }

// profile is the app profile of a request.
func (r rules) profile(req profiled) AppProfile {
	return r.profiles[cmp.Or(req.GetAppProfileId(), defaultProfile)]
}

func (r rules) checkProfile(req any) error {
	named, ok := req.(profiled)
	if !ok {
		return nil
	}
	if _, ok := r.profiles[cmp.Or(named.GetAppProfileId(), defaultProfile)]; !ok {
		return status.Errorf(codes.NotFound, "App profile %q not found", named.GetAppProfileId())
	}
	p := r.profile(named)
	switch req.(type) {
	case *btpb.CheckAndMutateRowRequest, *btpb.ReadModifyWriteRowRequest:
		if !p.SingleCluster || !p.TransactionalWrites {
			return status.Errorf(codes.FailedPrecondition, "Single-row transactions are not allowed by this app profile")
		}
	}
	return nil
}

// Rights are the IAM permissions of a principal, such as "bigtable.tables.readRows". [Role] lists
// those of Google's roles.
type Rights struct {
	Instance []string            // on the instance: these hold for every table too
	Tables   map[string][]string // on single tables, by their IDs
}

// Principals makes the emulator tell callers apart and refuse, with the code PermissionDenied, what
// they have no right to. ClientOptionsOf connects as one of them; any other caller has no rights.
// Without this option all may do everything.
func Principals(rights map[string]Rights) Option {
	return func(s *settings) { s.rules.rights = rights }
}

// The permissions that a data client and table administration need.
const (
	permissionPing   = "bigtable.instances.ping"
	permissionRead   = "bigtable.tables.readRows"
	permissionSample = "bigtable.tables.sampleRowKeys"
	permissionWrite  = "bigtable.tables.mutateRows"
	permissionCreate = "bigtable.tables.create"
	permissionGet    = "bigtable.tables.get"
	permissionList   = "bigtable.tables.list"
	permissionUpdate = "bigtable.tables.update"
	permissionDelete = "bigtable.tables.delete"
)

// Role returns the permissions of one of Google's predefined roles, as far as this package knows
// them: those to connect, to read and write rows and to administer tables. Source: Google's page
// "Bigtable roles and permissions". nil: an unknown role.
func Role(name string) []string {
	viewer := []string{permissionGet, permissionList}
	reader := append([]string{permissionPing, permissionRead, permissionSample}, viewer...)
	user := append([]string{permissionWrite}, reader...)
	switch name {
	case "roles/bigtable.viewer":
		return viewer
	case "roles/bigtable.reader":
		return reader
	case "roles/bigtable.user":
		return user
	case "roles/bigtable.admin":
		return append([]string{permissionCreate, permissionUpdate, permissionDelete}, user...)
	}
	return nil
}

// needed returns the permissions that a request needs, on an instance or a table; none if they are
// unknown.
func needed(req any) (permissions []string, resource string) {
	switch r := req.(type) {
	case *btpb.PingAndWarmRequest:
		return []string{permissionPing}, r.Name
	case *btpb.ReadRowsRequest:
		return []string{permissionRead}, r.TableName
	case *btpb.SampleRowKeysRequest:
		return []string{permissionSample}, r.TableName
	case *btpb.MutateRowRequest:
		return []string{permissionWrite}, r.TableName
	case *btpb.MutateRowsRequest:
		return []string{permissionWrite}, r.TableName
	case *btpb.CheckAndMutateRowRequest:
		return []string{permissionRead, permissionWrite}, r.TableName
	case *btpb.ReadModifyWriteRowRequest:
		return []string{permissionRead, permissionWrite}, r.TableName
	case *btapb.CreateTableRequest:
		return []string{permissionCreate}, r.Parent
	case *btapb.ListTablesRequest:
		return []string{permissionList}, r.Parent
	case *btapb.GetTableRequest:
		return []string{permissionGet}, r.Name
	case *btapb.ModifyColumnFamiliesRequest:
		return []string{permissionUpdate}, r.Name
	case *btapb.UpdateTableRequest:
		return []string{permissionUpdate}, r.GetTable().GetName()
	case *btapb.DeleteTableRequest:
		return []string{permissionDelete}, r.Name
	case *btapb.DropRowRangeRequest:
		return []string{permissionWrite}, r.Name
	}
	return nil, ""
}

func (r rules) authorize(ctx context.Context, req any) error {
	if r.rights == nil {
		return nil
	}
	principal := principalOf(ctx)
	rights := r.rights[principal]
	permissions, resource := needed(req)
	if permissions == nil {
		return status.Errorf(codes.PermissionDenied, "Access denied. The IAM permission that a %T needs is unknown.", req)
	}
	_, table, _ := strings.Cut(resource, "/tables/")
	for _, p := range permissions {
		if !slices.Contains(rights.Instance, p) && !slices.Contains(rights.Tables[table], p) {
			return status.Errorf(codes.PermissionDenied, "Access denied. Missing IAM permission: %s on %s for %q.", p, resource, principal)
		}
	}
	return nil
}

// A principal names itself in the header in which production carries an access token.
const authorization = "authorization"

type principal string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (p principal) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{authorization: "Bearer " + string(p)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (principal) RequireTransportSecurity() bool { return false }

func principalOf(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, v := range md.Get(authorization) {
		if name, ok := strings.CutPrefix(v, "Bearer "); ok {
			return name
		}
	}
	return ""
}

// ClientOptionsOf returns the options of ClientOptions for a client that connects as a principal of
// [Principals].
func (s *Server) ClientOptionsOf(name string) []option.ClientOption {
	return append(s.ClientOptions(), option.WithGRPCDialOption(grpc.WithPerRPCCredentials(principal(name))))
}
