package com.example.recovery;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.kafka.annotation.EnableKafkaStreams;

/** The smallest application of Spring with the endpoints: it counts the records of each key of the topic that the property totals.input names. */
@SpringBootApplication
@EnableKafkaStreams
@Import(RecoveryController.class)
public class TotalsApplication {
  @Bean
  public KTable<String, Long> totals(StreamsBuilder builder, @Value("${totals.input}") String input) {
    return builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
        .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .count(Materialized.as("totals"));
  }

  public static void main(String[] arguments) {
    SpringApplication.run(TotalsApplication.class, arguments);
  }
}
