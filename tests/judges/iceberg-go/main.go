// The judge of iceberg-go, on Iceberg tables. It prints one JSON object: the outcome of each capability.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	_ "github.com/apache/iceberg-go/io/gocloud"
	"github.com/apache/iceberg-go/table"
)

// place is where the judge works. It has the fields of Place in tests/judges/steps.py.
type place struct {
	Url       string
	Namespace string
	Endpoint  string
	Region    string
	Key       *struct {
		AccessKeyID     string `json:"access_key_id"`
		SecretAccessKey string `json:"secret_access_key"`
	}
}

var schema = iceberg.NewSchema(0,
	iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
	iceberg.NestedField{ID: 2, Name: "city", Type: iceberg.PrimitiveTypes.String},
)

type judge struct {
	ctx     context.Context
	catalog *rest.Catalog
	name    table.Identifier
}

func open(ctx context.Context, at place) (*judge, error) {
	options := []rest.Option{rest.WithWarehouseLocation("lake")}
	if at.Key != nil {
		// By default iceberg-go requests vended credentials, which would replace these.
		options = append(options, rest.WithHeaders(map[string]string{"X-Iceberg-Access-Delegation": ""}),
			rest.WithAdditionalProps(iceberg.Properties{
				"s3.endpoint":          at.Endpoint,
				"s3.region":            at.Region,
				"s3.access-key-id":     at.Key.AccessKeyID,
				"s3.secret-access-key": at.Key.SecretAccessKey,
			}))
	}
	lake, err := rest.NewCatalog(ctx, "lake", at.Url+"/iceberg", options...)
	if err != nil {
		return nil, err
	}
	namespace := table.Identifier{at.Namespace}
	if err := lake.CreateNamespace(ctx, namespace, nil); err != nil && !errors.Is(err, catalog.ErrNamespaceAlreadyExists) {
		return nil, err
	}
	return &judge{ctx, lake, append(namespace, "go")}, nil
}

func rows(ids []int64, cities []string) arrow.Table {
	fields := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "city", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, fields)
	defer builder.Release()
	builder.Field(0).(*array.Int64Builder).AppendValues(ids, nil)
	builder.Field(1).(*array.StringBuilder).AppendValues(cities, nil)
	return array.NewTableFromRecords(fields, []arrow.RecordBatch{builder.NewRecordBatch()})
}

func (j *judge) load() (*table.Table, error) { return j.catalog.LoadTable(j.ctx, j.name) }

func (j *judge) write(to *table.Table, what arrow.Table) error {
	_, err := to.AppendTable(j.ctx, what, what.NumRows(), nil)
	return err
}

func (j *judge) expect(wanted []int64, options ...table.ScanOption) error {
	orders, err := j.load()
	if err != nil {
		return err
	}
	found, err := orders.Scan(options...).ToArrowTable(j.ctx)
	if err != nil {
		return err
	}
	defer found.Release()
	var ids []int64
	for _, chunk := range found.Column(0).Data().Chunks() {
		ids = append(ids, chunk.(*array.Int64).Int64Values()...)
	}
	slices.Sort(ids)
	if !slices.Equal(ids, wanted) {
		return fmt.Errorf("read %v instead of %v", ids, wanted)
	}
	return nil
}

func (j *judge) create() error {
	orders, err := j.catalog.CreateTable(j.ctx, j.name, schema)
	if err != nil {
		return err
	}
	return j.write(orders, rows([]int64{1, 2, 3}, []string{"Oslo", "Rome", "Kyiv"}))
}

func (j *judge) append() error {
	orders, err := j.load()
	if err != nil {
		return err
	}
	return j.write(orders, rows([]int64{4}, []string{"Bonn"}))
}

func (j *judge) read() error { return j.expect([]int64{1, 2, 3, 4}) }

func (j *judge) timeTravel() error {
	orders, err := j.load()
	if err != nil {
		return err
	}
	snapshots := orders.Metadata().Snapshots()
	if len(snapshots) == 0 {
		return errors.New("the table has no snapshots")
	}
	return j.expect([]int64{1, 2, 3}, table.WithSnapshotID(snapshots[0].SnapshotID))
}

func (j *judge) evolve() error {
	orders, err := j.load()
	if err != nil {
		return err
	}
	transaction := orders.NewTransaction()
	update := transaction.UpdateSchema(true, false)
	update.AddColumn([]string{"note"}, iceberg.PrimitiveTypes.String, "", false, nil)
	if err := update.Commit(); err != nil {
		return err
	}
	_, err = transaction.Commit(j.ctx)
	return err
}

func (j *judge) delete() error {
	orders, err := j.load()
	if err != nil {
		return err
	}
	transaction := orders.NewTransaction()
	if err := transaction.Delete(j.ctx, iceberg.EqualTo(iceberg.Reference("id"), int64(2)), nil); err != nil {
		return err
	}
	if _, err := transaction.Commit(j.ctx); err != nil {
		return err
	}
	return j.expect([]int64{1, 3, 4})
}

func (j *judge) drop() error {
	if err := j.catalog.DropTable(j.ctx, j.name); err != nil {
		return err
	}
	if _, err := j.load(); !errors.Is(err, catalog.ErrNoSuchTable) {
		return errors.New("the table still exists")
	}
	return nil
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

func main() {
	var at place
	if err := json.Unmarshal([]byte(os.Getenv("JUDGE_PLACE")), &at); err != nil {
		panic(err)
	}
	j, err := open(context.Background(), at)
	if err != nil {
		panic(err)
	}
	outcomes := map[string]string{
		"create":      outcome(j.create()),
		"append":      outcome(j.append()),
		"read":        outcome(j.read()),
		"time_travel": outcome(j.timeTravel()),
		"evolve":      outcome(j.evolve()),
		"delete":      outcome(j.delete()),
		"drop":        outcome(j.drop()),
	}
	report, _ := json.Marshal(outcomes)
	fmt.Println(string(report))
}
