package example;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.ws.rs.core.Response;
import jakarta.ws.rs.ext.ContextResolver;
import java.net.URI;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import org.glassfish.jersey.jackson.JacksonFeature;
import org.glassfish.jersey.jdkhttp.JdkHttpServerFactory;
import org.glassfish.jersey.server.ResourceConfig;
import stub.Action;
import stub.Compensate;
import stub.Execute;
import stub.Problem;
import stub.StepsApi;

/**
 * A participant on the generated stub. It keeps the rules in memory, so it is an example of the stub and not of
 * durability: a real one keeps a Step for each row of a table, and writes it in the transaction of the charge.
 */
public class Charges implements StepsApi {
  /** What is known of one step of one saga. */
  private static final class Step {
    long fence;
    /** Runs of the execute: the newest that came, the one that is done, and the last that was compensated. */
    int seen;
    int done;
    int blocked;
    final Map<String, Answer> answers = new HashMap<>();
  }

  private record Answer(int digest, int status, Object body) {}

  private final Map<String, Step> steps = new HashMap<>();
  private int charges;

  @Override
  public Response executeStep(String key, UUID saga, String step, UUID tenant, Action action, Integer attempt,
      Long fence, String deadline, String traceparent, String path, Execute call, URI callback, Long timestamp,
      String signature, String webhookId, Long webhookTimestamp, String webhookSignature, String tracestate,
      String baggage) {
    return answer(key, tenant + "/" + saga + "/" + step, fence, call.hashCode(), known -> {
      int run = runOf(key);
      if (run <= known.blocked) return refused(409, "ALREADY_COMPENSATED");
      if (run < known.seen) return refused(409, "SUPERSEDED");
      known.seen = run;
      known.done = run;
      return new Answer(0, 200, Map.of("charge_id", ++charges));
    });
  }

  @Override
  public Response compensateStep(String key, UUID saga, String step, UUID tenant, Action action, Integer attempt,
      Long fence, String deadline, String traceparent, String path, Compensate call, URI callback, Long timestamp,
      String signature, String webhookId, Long webhookTimestamp, String webhookSignature, String tracestate,
      String baggage) {
    return answer(key, tenant + "/" + saga + "/" + step, fence, call.hashCode(), known -> {
      if (known.done > 0) {
        charges--;
        known.done = 0;
        known.blocked = Math.max(known.blocked, known.seen);
      } else { // for a run that has not arrived, and must not be done when it does
        known.blocked = Math.max(known.seen > known.blocked ? known.seen : known.blocked + 1, runOf(key));
      }
      return new Answer(0, 200, Map.of());
    });
  }

  private interface Work {
    Answer of(Step known);
  }

  private synchronized Response answer(String key, String id, long fence, int digest, Work work) {
    Step known = steps.computeIfAbsent(id, none -> new Step());
    if (fence < known.fence) return response(refused(409, "OLDER_FENCE"));
    Answer before = known.answers.get(key);
    if (before != null && before.digest != digest) return response(refused(422, "KEY_REUSED"));
    known.fence = fence;
    if (before != null) return response(before);
    Answer now = work.of(known);
    if (now.status == 200) known.answers.put(key, new Answer(digest, now.status, now.body));
    return response(now);
  }

  /** n of a key that ends in #n: an operator made it another call. */
  private static int runOf(String key) {
    int at = key.lastIndexOf('#');
    return at < 0 ? 1 : Integer.parseInt(key.substring(at + 1));
  }

  private static Answer refused(int status, String code) {
    Problem problem = new Problem();
    problem.put("code", code);
    return new Answer(0, status, problem);
  }

  private static Response response(Answer answer) {
    return Response.status(answer.status).entity(answer.body).build();
  }

  /** Later versions of Skald add members, and proxies add headers: unknown ones are ignored. */
  private static final class Json implements ContextResolver<ObjectMapper> {
    private final ObjectMapper mapper = new ObjectMapper().findAndRegisterModules()
        .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);

    @Override
    public ObjectMapper getContext(Class<?> type) {
      return mapper;
    }
  }

  public static void main(String[] args) {
    ResourceConfig config = new ResourceConfig(JacksonFeature.class).register(new Json()).register(new Charges());
    var server = JdkHttpServerFactory.createHttpServer(URI.create("http://127.0.0.1:0/"), config);
    System.out.println("http://127.0.0.1:" + server.getAddress().getPort());
  }
}
