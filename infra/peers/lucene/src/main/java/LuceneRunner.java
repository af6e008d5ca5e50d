import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.lucene.analysis.core.KeywordAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.DoublePoint;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.Term;
import org.apache.lucene.monitor.Monitor;
import org.apache.lucene.monitor.MonitorConfiguration;
import org.apache.lucene.monitor.MonitorQuery;
import org.apache.lucene.monitor.MultiMatchingQueries;
import org.apache.lucene.monitor.MultipassTermFilteredPresearcher;
import org.apache.lucene.monitor.QueryMatch;
import org.apache.lucene.monitor.TermWeightor;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.util.Version;

/**
 * Match the benchmark files with Lucene Monitor: {@code LuceneRunner FOLDER COUNT}.
 *
 * See benchmarks/scenarios/streams/peers.py for the contract of peers. A subscription is a conjunction of its keywords,
 * of the grid cells that its rectangle covers (any of them), and of exact ranges. The presearcher uses the rarest keyword
 * in its first pass, and in its second the next keyword or the cells. Several batch sizes are tried on a tenth of the
 * objects; the fastest size then matches all of them.
 */
public final class LuceneRunner {
  private static final double CELL = 0.25; // degrees
  private static final int[] BATCHES = {1, 8, 64};

  public static void main(String[] args) throws IOException {
    Path folder = Path.of(args[0]);
    int count = Integer.parseInt(args[1]);
    List<Document> documents = new ArrayList<>();
    Map<String, Integer> frequency = new HashMap<>();
    try (BufferedReader lines = Files.newBufferedReader(folder.resolve("objects.tsv"))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String[] fields = line.split("\t");
        String[] terms = list(fields[3]);
        for (String term : terms) {
          frequency.merge(term, 1, Integer::sum);
        }
        if (documents.size() < count) {
          documents.add(document(Double.parseDouble(fields[1]), Double.parseDouble(fields[2]), terms));
        }
      }
    }
    // The rarest keyword weighs most, and any keyword more than a cell in the first pass.
    TermWeightor rarest =
        (Term term) -> term.field().equals("cell") ? 1e-9 : 1.0 / (1 + frequency.getOrDefault(term.text(), 0));
    MonitorConfiguration configuration = new MonitorConfiguration().setQueryUpdateBufferSize(100_000);
    var presearcher = new MultipassTermFilteredPresearcher(2, 0f, rarest, List.of(), Set.of());
    long began = System.nanoTime();
    try (Monitor monitor = new Monitor(new KeywordAnalyzer(), presearcher, configuration)) {
      register(monitor, folder.resolve("subscriptions.tsv"));
      double loaded = seconds(began);
      StringBuilder setting = new StringBuilder("2 passes; batches of");
      int best = BATCHES[0];
      double least = Double.MAX_VALUE;
      for (int size : BATCHES) {
        long start = System.nanoTime();
        match(monitor, documents.subList(0, Math.max(1, count / 10)), size);
        double took = seconds(start);
        setting.append(String.format(" %d: %.2f s,", size, took));
        if (took < least) {
          least = took;
          best = size;
        }
      }
      long start = System.nanoTime();
      long[] found = match(monitor, documents, best);
      System.out.printf(
          "{\"version\": \"%s\", \"setting\": \"%s best %d\", \"load_seconds\": %f, \"seconds\": %f,"
              + " \"matches\": %d, \"key_sum\": %d}%n",
          Version.LATEST, setting, best, loaded, seconds(start), found[0], found[1]);
    }
  }

  private static void register(Monitor monitor, Path file) throws IOException {
    List<MonitorQuery> waiting = new ArrayList<>();
    try (BufferedReader lines = Files.newBufferedReader(file)) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        waiting.add(subscription(line.split("\t")));
        if (waiting.size() == 100_000) {
          monitor.register(waiting);
          waiting.clear();
        }
      }
    }
    monitor.register(waiting);
  }

  private static MonitorQuery subscription(String[] fields) {
    double west = Double.parseDouble(fields[1]);
    double south = Double.parseDouble(fields[2]);
    double east = Double.parseDouble(fields[3]);
    double north = Double.parseDouble(fields[4]);
    BooleanQuery.Builder whole = new BooleanQuery.Builder();
    for (String term : list(fields[6])) {
      whole.add(new TermQuery(new Term("term", term)), Occur.FILTER);
    }
    BooleanQuery.Builder cells = new BooleanQuery.Builder();
    for (int column = slot(west); column <= slot(east); column++) {
      for (int row = slot(south); row <= slot(north); row++) {
        cells.add(new TermQuery(new Term("cell", column + "," + row)), Occur.SHOULD);
      }
    }
    whole.add(cells.build(), Occur.FILTER);
    whole.add(DoublePoint.newRangeQuery("lon", west, east), Occur.FILTER);
    whole.add(DoublePoint.newRangeQuery("lat", south, north), Occur.FILTER);
    Query query = whole.build();
    return new MonitorQuery(fields[0], query);
  }

  private static Document document(double lon, double lat, String[] terms) {
    Document document = new Document();
    for (String term : terms) {
      document.add(new StringField("term", term, Field.Store.NO));
    }
    document.add(new StringField("cell", slot(lon) + "," + slot(lat), Field.Store.NO));
    document.add(new DoublePoint("lon", lon));
    document.add(new DoublePoint("lat", lat));
    return document;
  }

  private static long[] match(Monitor monitor, List<Document> documents, int size) throws IOException {
    long matches = 0;
    long keys = 0;
    for (int from = 0; from < documents.size(); from += size) {
      Document[] batch = documents.subList(from, Math.min(documents.size(), from + size)).toArray(new Document[0]);
      MultiMatchingQueries<QueryMatch> found = monitor.match(batch, QueryMatch.SIMPLE_MATCHER);
      for (int place = 0; place < batch.length; place++) {
        for (QueryMatch match : found.getMatches(place)) {
          matches++;
          keys += Long.parseLong(match.getQueryId());
        }
      }
    }
    return new long[] {matches, keys};
  }

  private static String[] list(String field) {
    return field.substring(1, field.length() - 1).split(",");
  }

  private static int slot(double degrees) {
    return (int) Math.floor(degrees / CELL);
  }

  private static double seconds(long began) {
    return (System.nanoTime() - began) / 1e9;
  }
}
