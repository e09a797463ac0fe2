import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [("console", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="GroupLock",
            fields=[
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("holder", models.CharField(max_length=64)),
                ("expires_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="OffsetChange",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("group", models.TextField()),
                ("act", models.CharField(max_length=32)),
                ("made_at", models.DateTimeField()),
                ("made_by", models.CharField(max_length=150)),
                ("expires_at", models.DateTimeField()),
                ("moves", models.TextField()),
                ("undone_at", models.DateTimeField(null=True)),
                ("undone_by", models.CharField(blank=True, max_length=150)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, to="console.cluster"
                    ),
                ),
            ],
            options={
                "ordering": ("-made_at", "-pk"),
                "indexes": [models.Index(fields=["cluster", "made_at"], name="offset_change_time")],
            },
        ),
    ]
