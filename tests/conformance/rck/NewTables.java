import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.iceberg.MetadataUpdateParser;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.SortOrderParser;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;

/** For each line of input, which describes a table: the metadata that Iceberg's own code creates, as one line. */
public class NewTables {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] args) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(answer(JSON.readTree(line)));
    }
  }

  @SuppressWarnings("unchecked")
  private static String answer(JsonNode asked) throws Exception {
    Schema schema = SchemaParser.fromJson(asked.get("schema"));
    PartitionSpec spec =
        asked.has("spec") ? PartitionSpecParser.fromJson(schema, asked.get("spec")) : PartitionSpec.unpartitioned();
    SortOrder order = asked.has("order") ? SortOrderParser.fromJson(schema, asked.get("order")) : SortOrder.unsorted();
    Map<String, String> properties = JSON.convertValue(asked.get("properties"), Map.class);
    String location = asked.get("location").asText();
    if (!asked.has("replaces")) {
      return TableMetadataParser.toJson(
          TableMetadata.newTableMetadata(schema, spec, order, location, properties));
    }
    TableMetadata base = TableMetadataParser.fromJson(JSON.writeValueAsString(asked.get("replaces")));
    TableMetadata replacement = base.buildReplacement(schema, spec, order, location, properties);
    List<String> updates =
        replacement.changes().stream().map(MetadataUpdateParser::toJson).collect(Collectors.toList());
    return "{\"metadata\":" + TableMetadataParser.toJson(replacement) + ",\"updates\":[" + String.join(",", updates) + "]}";
  }
}
