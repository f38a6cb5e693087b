package ycsb

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/spanner"
	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	instance "cloud.google.com/go/spanner/admin/instance/apiv1"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Spanner is Spanner's emulator. A field is a column.
type Spanner struct {
	client  *spanner.Client      // reads
	writers chan *spanner.Client // those that write nothing just now
	fields  []string
}

const (
	spannerProject  = "projects/bench"
	spannerInstance = spannerProject + "/instances/bench"
	keyColumn       = "id"
)

// NewSpanner creates an instance and a database on the emulator at an address. Each of the writers
// at once has a client, which has a session: the emulator forgets a session's older transactions.
func NewSpanner(ctx context.Context, address string, fields, writers int) (*Spanner, error) {
	options := []option.ClientOption{
		option.WithEndpoint("passthrough:///" + address), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
		option.WithGRPCDialOption(grpc.WithDefaultCallOptions(grpc.WaitForReady(true))),
	}
	if err := createSpannerInstance(ctx, options); err != nil {
		return nil, err
	}
	s := &Spanner{fields: fieldNames(fields), writers: make(chan *spanner.Client, writers)}
	name, err := s.createDatabase(ctx, options)
	if err != nil {
		return nil, err
	}
	open := func() (*spanner.Client, error) {
		return spanner.NewClientWithConfig(ctx, name, spanner.ClientConfig{DisableNativeMetrics: true},
			append(options, option.WithGRPCConnectionPool(1))...)
	}
	if s.client, err = open(); err != nil {
		return nil, err
	}
	for range writers {
		c, err := open()
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.writers <- c
	}
	return s, nil
}

// write makes a read-write transaction, with a client that has no other one.
func (s *Spanner) write(ctx context.Context, f func(context.Context, *spanner.ReadWriteTransaction) error) error {
	c := <-s.writers
	defer func() { s.writers <- c }()
	_, err := c.ReadWriteTransaction(ctx, f)
	return err
}

func createSpannerInstance(ctx context.Context, options []option.ClientOption) error {
	admin, err := instance.NewInstanceAdminClient(ctx, options...)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close() }()
	creation, err := admin.CreateInstance(ctx, &instancepb.CreateInstanceRequest{Parent: spannerProject, InstanceId: "bench",
		Instance: &instancepb.Instance{Config: spannerProject + "/instanceConfigs/emulator-config", DisplayName: "bench", NodeCount: 1}})
	if err == nil {
		_, err = creation.Wait(ctx)
	}
	return err
}

func (s *Spanner) createDatabase(ctx context.Context, options []option.ClientOption) (name string, err error) {
	admin, err := database.NewDatabaseAdminClient(ctx, options...)
	if err != nil {
		return "", err
	}
	defer func() { _ = admin.Close() }()
	columns := ""
	for _, f := range s.fields {
		columns += f + " BYTES(MAX), "
	}
	creation, err := admin.CreateDatabase(ctx, &databasepb.CreateDatabaseRequest{Parent: spannerInstance,
		CreateStatement: "CREATE DATABASE `bench`",
		ExtraStatements: []string{
			fmt.Sprintf("CREATE TABLE %s (%s STRING(64) NOT NULL, %s) PRIMARY KEY (%s)", recordTable, keyColumn, columns, keyColumn),
			fmt.Sprintf("CREATE TABLE %s (%s STRING(64) NOT NULL, %s INT64 NOT NULL) PRIMARY KEY (%s)", accountTable, keyColumn, balanceColumn, keyColumn),
		}})
	if err != nil {
		return "", err
	}
	db, err := creation.Wait(ctx)
	return db.GetName(), err
}

// Close closes the clients.
func (s *Spanner) Close() error {
	s.client.Close()
	for len(s.writers) > 0 {
		(<-s.writers).Close()
	}
	return nil
}

// Promise implements Store, as do the other methods.
func (s *Spanner) Promise() Promise {
	return Promise{Isolation: "external consistency", Atomic: "any rows and tables"}
}

// spannerReader is a transaction of either kind.
type spannerReader interface {
	ReadRow(ctx context.Context, table string, key spanner.Key, columns []string) (*spanner.Row, error)
}

func (s *Spanner) record(ctx context.Context, from spannerReader, key string) (Record, error) {
	row, err := from.ReadRow(ctx, recordTable, spanner.Key{key}, s.fields)
	if err != nil {
		return nil, err
	}
	return spannerRecord(row)
}

func spannerRecord(row *spanner.Row) (Record, error) {
	r := make(Record, row.Size())
	for i := range r {
		if err := row.Column(i, &r[i]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (s *Spanner) Read(ctx context.Context, key string) (Record, error) {
	return s.record(ctx, s.client.Single(), key)
}

func (s *Spanner) apply(ctx context.Context, m *spanner.Mutation) error {
	return s.write(ctx, func(_ context.Context, tx *spanner.ReadWriteTransaction) error {
		return tx.BufferWrite([]*spanner.Mutation{m})
	})
}

func (s *Spanner) update(key string, field int, value []byte) *spanner.Mutation {
	return spanner.Update(recordTable, []string{keyColumn, s.fields[field]}, []any{key, value})
}

func (s *Spanner) Update(ctx context.Context, key string, field int, value []byte) error {
	return s.apply(ctx, s.update(key, field, value))
}

func (s *Spanner) Insert(ctx context.Context, key string, r Record) error {
	columns, values := []string{keyColumn}, []any{key}
	for i, v := range r {
		columns, values = append(columns, s.fields[i]), append(values, v)
	}
	return s.apply(ctx, spanner.Insert(recordTable, columns, values))
}

func (s *Spanner) Scan(ctx context.Context, from string, most int) (found []Record, err error) {
	rows := spanner.KeyRange{Start: spanner.Key{from}, End: spanner.Key{}, Kind: spanner.ClosedClosed}
	err = s.client.Single().ReadWithOptions(ctx, recordTable, rows, s.fields, &spanner.ReadOptions{Limit: most}).Do(func(row *spanner.Row) error {
		r, err := spannerRecord(row)
		found = append(found, r)
		return err
	})
	return found, err
}

func (s *Spanner) Modify(ctx context.Context, key string, field int, value []byte) (before Record, err error) {
	err = s.write(ctx, func(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
		if before, err = s.record(ctx, tx, key); err != nil {
			return err
		}
		return tx.BufferWrite([]*spanner.Mutation{s.update(key, field, value)})
	})
	return before, err
}

func spannerBalance(account string, n int64) *spanner.Mutation {
	return spanner.InsertOrUpdate(accountTable, []string{keyColumn, balanceColumn}, []any{account, n})
}

func (s *Spanner) Deposit(ctx context.Context, account string, amount int64) error {
	return s.apply(ctx, spannerBalance(account, amount))
}

func (s *Spanner) Balance(ctx context.Context, account string) (int64, error) {
	return s.balance(ctx, s.client.Single(), account)
}

func (s *Spanner) balance(ctx context.Context, from spannerReader, account string) (n int64, err error) {
	row, err := from.ReadRow(ctx, accountTable, spanner.Key{account}, []string{balanceColumn})
	if err == nil {
		err = row.Column(0, &n)
	}
	return n, err
}

func (s *Spanner) Transfer(ctx context.Context, from, to string, amount int64) error {
	return s.write(ctx, func(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
		a, err := s.balance(ctx, tx, from)
		if err != nil {
			return err
		}
		b, err := s.balance(ctx, tx, to)
		if err != nil {
			return err
		}
		return tx.BufferWrite([]*spanner.Mutation{spannerBalance(from, a-amount), spannerBalance(to, b+amount)})
	})
}

func (s *Spanner) Total(ctx context.Context) (sum int64, accounts int, err error) {
	rows := s.client.Single().Read(ctx, accountTable, spanner.AllKeys(), []string{balanceColumn})
	defer rows.Stop()
	for {
		row, err := rows.Next()
		if err == iterator.Done {
			return sum, accounts, nil
		}
		var n int64
		if err == nil {
			err = row.Column(0, &n)
		}
		if err != nil {
			return 0, 0, err
		}
		sum, accounts = sum+n, accounts+1
	}
}
