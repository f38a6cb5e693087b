package ycsb

import (
	"context"

	"cloud.google.com/go/bigtable"
)

// Raw is Bigtable without transactions: each request is atomic over one row.
type Raw struct {
	records, accounts *bigtable.Table
	between           func() // what happens between reading and writing of a transfer; nil: nothing
}

// The tables of Raw, each with that family, of which one version is kept.
const (
	RawRecords  = "raw_" + recordTable
	RawAccounts = "raw_" + accountTable
	RawFamily   = "f"
)

// NewRaw returns the store whose tables open opens.
func NewRaw(open func(table string) *bigtable.Table) *Raw {
	return &Raw{records: open(RawRecords), accounts: open(RawAccounts)}
}

// Promise implements Store, as do the other methods.
func (s *Raw) Promise() Promise {
	return Promise{Isolation: "none between rows", Atomic: "one row"}
}

var rawNewest = bigtable.RowFilter(bigtable.LatestNFilter(1))

// rawSet writes at the time of the server: one of a client would let its slow clock lose updates.
func rawSet(m *bigtable.Mutation, column string, value []byte) {
	m.Set(RawFamily, column, bigtable.ServerTime, value)
}

// rawRecord takes the fields in their order, which is not that of their names.
func rawRecord(row bigtable.Row) (Record, error) {
	items := row[RawFamily]
	r := make(Record, len(items))
	for _, item := range items {
		i, err := fieldNumber(item.Column[len(RawFamily)+1:])
		if err != nil {
			return nil, err
		}
		if i < len(r) {
			r[i] = item.Value
		}
	}
	return r, nil
}

func (s *Raw) Read(ctx context.Context, key string) (Record, error) {
	row, err := s.records.ReadRow(ctx, key, rawNewest)
	if err != nil {
		return nil, err
	}
	return rawRecord(row)
}

func (s *Raw) Update(ctx context.Context, key string, field int, value []byte) error {
	m := bigtable.NewMutation()
	rawSet(m, fieldName(field), value)
	return s.records.Apply(ctx, key, m)
}

func (s *Raw) Insert(ctx context.Context, key string, r Record) error {
	m := bigtable.NewMutation()
	for i, v := range r {
		rawSet(m, fieldName(i), v)
	}
	return s.records.Apply(ctx, key, m)
}

func (s *Raw) Scan(ctx context.Context, from string, most int) (found []Record, err error) {
	var wrong error
	err = s.records.ReadRows(ctx, bigtable.InfiniteRange(from), func(row bigtable.Row) bool {
		var r Record
		r, wrong = rawRecord(row)
		found = append(found, r)
		return wrong == nil
	}, rawNewest, bigtable.LimitRows(int64(most)))
	if err == nil {
		err = wrong
	}
	return found, err
}

func (s *Raw) Modify(ctx context.Context, key string, field int, value []byte) (Record, error) {
	r, err := s.Read(ctx, key)
	if err == nil {
		err = s.Update(ctx, key, field, value)
	}
	return r, err
}

func (s *Raw) Deposit(ctx context.Context, account string, amount int64) error {
	m := bigtable.NewMutation()
	rawSet(m, balanceColumn, encodeBalance(amount))
	return s.accounts.Apply(ctx, account, m)
}

func (s *Raw) Balance(ctx context.Context, account string) (int64, error) {
	row, err := s.accounts.ReadRow(ctx, account, rawNewest)
	if err != nil {
		return 0, err
	}
	return rawBalance(row)
}

func rawBalance(row bigtable.Row) (int64, error) {
	if len(row[RawFamily]) != 1 {
		return 0, errNoAccount
	}
	return decodeBalance(row[RawFamily][0].Value)
}

// Transfer loses what others write to either account between its reads and its writes.
func (s *Raw) Transfer(ctx context.Context, from, to string, amount int64) error {
	a, err := s.Balance(ctx, from)
	if err != nil {
		return err
	}
	b, err := s.Balance(ctx, to)
	if err != nil {
		return err
	}
	if s.between != nil {
		s.between()
	}
	if err := s.Deposit(ctx, from, a-amount); err != nil {
		return err
	}
	return s.Deposit(ctx, to, b+amount)
}

func (s *Raw) Total(ctx context.Context) (sum int64, accounts int, err error) {
	var wrong error
	err = s.accounts.ReadRows(ctx, bigtable.InfiniteRange(""), func(row bigtable.Row) bool {
		var n int64
		n, wrong = rawBalance(row)
		sum, accounts = sum+n, accounts+1
		return wrong == nil
	}, rawNewest)
	if err == nil {
		err = wrong
	}
	return sum, accounts, err
}

// LoseOne makes two transfers between the same accounts, the second between the reads and the
// writes of the first, which loses it. A check of the sum has to see that.
func (s *Raw) LoseOne(ctx context.Context, from, to, third string) (err error) {
	inner := *s
	outer := inner
	outer.between = func() { err = inner.Transfer(ctx, from, third, 1) }
	if wrong := outer.Transfer(ctx, from, to, 1); wrong != nil {
		return wrong
	}
	return err
}
