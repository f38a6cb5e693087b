package probe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/percolator/model"
)

// Access is what an identity may do with a table's rows.
type Access int

// Writers also read.
const (
	None Access = iota
	Read
	Write
)

// Role is what an identity is for. None has rights on tables that it is not given, and none removes
// tables.
type Role struct {
	Name   string
	Meta   Access // to percolator_meta
	Tables Access // to the tables that it is given
	Create bool   // it makes tables
}

// Roles are those that terraform/modules/grants knows; a test compares them.
func Roles() []Role {
	return []Role{
		{"worker", Write, Write, false},
		{"batch", Write, Write, false},
		{"operator", Write, Write, false},
		{"reader", Read, Read, false},
		{"oracle", Read, None, false},         // its record is in Spanner
		{"oracle-record", Write, None, false}, // its record is in percolator_meta
		{"schema", Write, None, true},
	}
}

// Identity is a caller that is to have the rights of a role.
type Identity struct {
	Role    Role
	Name    string
	Tables  []string              // its tables, or some that a role without tables must not see
	Options []option.ClientOption // with its credentials
	Err     error                 // why there are none
}

// MaxIdentityTables is how many tables an identity is tried on.
const MaxIdentityTables = 16

func identitiesCost(c *Config) (cost Cost) {
	for _, i := range c.Identities {
		cost = cost.plus(Cost{Requests: 2 * (8 + 2*min(len(i.Tables), MaxIdentityTables)), Bytes: 16 << 10})
		if i.Role.Create {
			cost.Tables++
		}
	}
	return cost
}

func (p *probe) identities(ctx context.Context) (out []health.Finding) {
	if len(p.Identities) == 0 {
		return health.Unchecked("no identity is given (--identity ROLE=SERVICE_ACCOUNT)")
	}
	for _, i := range p.Identities {
		out = append(out, p.identity(ctx, i)...)
	}
	return out
}

// attempt is a request of an identity. None changes anything but scratch tables: what is sent to
// others reads a row that does not exist, or has a condition that nothing fulfils.
type attempt struct {
	what string
	may  bool
	err  error
}

func (p *probe) identity(ctx context.Context, i Identity) (out []health.Finding) {
	name := strings.TrimSpace(i.Role.Name + " " + i.Name)
	if i.Err != nil {
		return unable(fmt.Errorf("%s: %w", name, i.Err))
	}
	opts := slices.Concat(p.meter.options(), []option.ClientOption{option.WithGRPCConnectionPool(1)}, i.Options)
	data, err := dataClient(ctx, p.Project, p.Instance, p.AppProfile, opts)
	if err == nil {
		defer func() { _ = data.Close() }()
		err = data.PingAndWarm(ctx)
	}
	if status.Code(err) == codes.PermissionDenied {
		return []health.Finding{failed(p.policyCommand(), "%s cannot connect: %v", name, err)}
	} else if err != nil {
		return unable(fmt.Errorf("%s, to connect: %w", name, err))
	}
	admin, err := bigtable.NewAdminClient(ctx, p.Project, p.Instance, opts...)
	if err != nil {
		return unable(err)
	}
	defer func() { _ = admin.Close() }()
	tried := append(p.attempts(ctx, data, model.MetaTable, i.Role.Meta),
		attempt{"write " + p.table, false, data.Open(p.table).Apply(ctx, "identity", setting("c", 1000, "v"))},
		attempt{"read " + p.table, false, p.readOne(ctx, data, p.table)})
	for _, table := range i.Tables[:min(len(i.Tables), MaxIdentityTables)] {
		tried = append(tried, p.attempts(ctx, data, table, i.Role.Tables)...)
	}
	if !slices.Contains(p.made, p.madeTable()) {
		p.made = append(p.made, p.madeTable())
	}
	creating, cancel := unabandoned(ctx)
	defer cancel()
	tried = append(tried, attempt{"create tables", i.Role.Create, p.ignoring(codes.AlreadyExists, admin.CreateTable(creating, p.madeTable()))},
		attempt{"remove tables", false, p.ignoring(codes.NotFound, admin.DeleteTable(ctx, p.table+"_none"))})
	may, mayNot := 0, 0
	for _, a := range tried {
		switch code := status.Code(a.err); {
		case a.may && a.err == nil:
			may++
		case !a.may && code == codes.PermissionDenied:
			mayNot++
		case a.may && code == codes.PermissionDenied:
			out = append(out, failed(p.policyCommand(), "%s cannot %s: %v", name, a.what, a.err))
		case a.err == nil:
			out = append(out, failed(p.policyCommand(), "%s can %s", name, a.what))
		default:
			out = append(out, unable(fmt.Errorf("%s, to %s: %w", name, a.what, a.err))...)
		}
	}
	return health.ElseFine(out, "%s connects; requests that were served as they should be: %d, refused as they should be: %d", name, may, mayNot)
}

func (p *probe) ignoring(code codes.Code, err error) error {
	if status.Code(err) == code {
		return nil
	}
	return err
}

// attempts reads and writes a table that others use.
func (p *probe) attempts(ctx context.Context, data *bigtable.Client, table string, a Access) []attempt {
	never, erase := bigtable.BlockAllFilter(), bigtable.NewMutation()
	erase.DeleteRow()
	return []attempt{
		{"read " + table, a >= Read, p.readOne(ctx, data, table)},
		{"write " + table, a >= Write, data.Open(table).Apply(ctx, p.table, bigtable.NewCondMutation(never, erase, nil))},
	}
}

func (p *probe) readOne(ctx context.Context, data *bigtable.Client, table string) error {
	_, err := data.Open(table).ReadRow(ctx, p.table, bigtable.RowFilter(bigtable.StripValueFilter()))
	return err
}

func (p *probe) policyCommand() string {
	return fmt.Sprintf("gcloud bigtable instances get-iam-policy %s --project=%s", p.Instance, p.Project)
}
